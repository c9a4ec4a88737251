"""Hash tables that kernels fill: ids by first occurrence, in tables that grow."""

import numpy as np
import pytest

from stepwhy.base.columns.kernels import tables
from stepwhy.base.columns.kernels.tables import Pairs, Texts, words_of


@pytest.fixture
def numbering(kernels, monkeypatch):
    monkeypatch.setattr(tables, "_ROOM", 2)
    return kernels("stepwhy.base.columns.kernels.numbering")


def test_words_are_the_eight_bytes_from_each_position():
    words = words_of(bytes(range(10)))
    assert words["word"].tolist() == [
        int.from_bytes(bytes(range(i, i + 8)), "little") for i in range(3)
    ]
    assert words_of(b"short")["word"].tolist() == [0, 0]


def test_texts_keep_their_ids_while_the_table_grows(numbering):
    texts = [b"x" * n for n in (1, 40, 7, 900, 3, 8, 9, 16)]
    data = b"".join(texts) + bytes(8)
    table, words, ids = Texts(data), words_of(data), []
    for _ in range(2):
        begin = 0
        for text in texts:
            while (found := numbering.number_of_text(table.arrays, words, begin, len(text))) < 0:
                assert table.make_room()
            ids.append(found)
            begin += len(text)
    assert ids == [*range(len(texts))] * 2
    assert [table[number] for number in range(len(table))] == texts
    assert table.many(np.array([2, 0])) == [texts[2], texts[0]]


def test_table_with_room_does_not_grow():
    assert not Texts(b"").make_room()
    assert not Pairs().make_room()


def test_every_entry_has_its_own_slot_after_growth(numbering):
    table = Pairs()
    for number in range(16):
        while numbering.number_of_pair(table.arrays, number, -number) < 0:
            table.make_room()
    assert table.make_room()
    assert sorted(slot for slot in table._slots.tolist() if slot) == list(range(1, 17))
    assert len(table._slots) == 64  # at most half full when there are 32
    assert table[3] == (3, -3)
