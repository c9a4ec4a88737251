"""Tables that kernels fill: they grow until whatever was too long for them fits in."""

import numpy as np
import pytest

from stepwhy.native import tables
from stepwhy.native.tables import Pairs, Texts


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(tables, "_ROOM", 2)
    monkeypatch.setattr(tables, "_ARENA", 32)


def put(table, text):
    """What a kernel does with a text that it has not seen; whether there was room."""
    fields = table._fields
    used, room = int(fields[tables._USED]), int(fields[tables._ARENA_ROOM])
    if len(table) == fields[tables._MOST] or used + len(text) + 8 > room:
        return False
    table._arenas[-1][used : used + len(text)] = np.frombuffer(text, dtype=np.uint8)
    address = int(fields[tables._ARENA_AT]) + used
    table._entries[len(table)] = address, len(text), hash(text) >> 8
    fields[tables._COUNT] += 1
    fields[tables._USED] += len(text)
    return True


def test_texts_stay_what_they_are_while_the_table_grows():
    table = Texts()
    address = table.address
    texts = [b"x" * n for n in (1, 40, 7, 900, 0, 3)]
    for text in texts:
        while not put(table, text):
            if not table.make_room():
                table.make_longer()
    assert [table[number] for number in range(len(table))] == texts
    assert table.address == address


def test_a_table_with_room_left_does_not_grow():
    assert not Texts().make_room()
    assert not Pairs().make_room()


def test_each_entry_has_a_slot_of_its_own_after_growth():
    table = Texts()
    for number in range(16):
        while not put(table, b"%d" % number):
            table.make_room()
    assert table.make_room()
    assert sorted(slot for slot in table._slots.tolist() if slot) == list(range(1, 17))
    assert len(table._slots) == 64  # at most half full when there are 32
