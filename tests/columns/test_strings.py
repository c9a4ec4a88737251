"""Packed strings and interning."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwhy.base.columns import _packing as packing
from stepwhy.base.columns import interning, strings
from stepwhy.base.columns._packing import Packing, parts_of
from stepwhy.base.columns._slots import Slots
from stepwhy.base.columns.interning import Interner
from stepwhy.base.columns.strings import Strings, strings_from
from stepwhy.trace import Kind, Meta, Role, TraceBuilder

FEW = settings(max_examples=60, deadline=None, derandomize=True)
# Of several lengths in bytes, halves of surrogate pairs among them; none of them is special.
TEXTS = st.lists(st.text(st.sampled_from("ab\0é€😀\ud83d\ude00"), max_size=4))


@pytest.fixture(autouse=True)
def _few_are_objects(monkeypatch):
    """Make batches and limits so small that tests exceed them."""
    monkeypatch.setattr(interning, "FEW", 3)
    monkeypatch.setattr(interning, "_BATCH", 4)
    monkeypatch.setattr(strings, "FEW", 2)
    monkeypatch.setattr(strings, "_BATCH", 3)
    monkeypatch.setattr(strings, "_SEARCHED", 4)


def packed(texts):
    packing = Packing()
    packing.add(parts_of(texts))
    return Strings(packing.data, packing.bounds)


@FEW
@given(TEXTS)
def test_packed_strings_round_trip(texts):
    held = packed(texts)
    assert list(held) == texts
    assert [held[i] for i in range(len(texts))] == texts
    assert [held[i] for i in np.arange(len(texts), dtype=np.int32)] == texts
    assert held.some(np.arange(len(texts))[::-1]) == texts[::-1]
    assert held[1:-1] == texts[1:-1]
    assert held == texts == held
    assert held == tuple(texts) == held
    assert pickle.loads(pickle.dumps(held)) == held  # noqa: S301 - made here


@FEW
@given(TEXTS)
def test_where_finds_every_position(texts):
    held = packed(texts)
    for text in {*texts, "ab", ""}:
        assert held.where(text).tolist() == [i for i, t in enumerate(texts) if t == text]
        assert (text in held) == (text in texts)
    some = set(texts[::2]) | {"absent"}
    expected = [i for i, t in enumerate(texts) if t in some]
    assert held.where_any(some).tolist() == expected
    many = some | {str(i) for i in range(100)}
    assert held.where_any(many).tolist() == expected


def test_packed_strings_are_a_sequence():
    held = packed(["a", "é"])
    assert held[-1] == "é"
    assert held != ["a"]
    assert held != ["a", "e"]
    assert held != "aé"
    assert 1 not in held
    assert repr(held) == "<2 texts, ['a', 'é'] ...>"
    for place in (2, -3):
        with pytest.raises(IndexError, match="of 2"):
            held[place]


def test_few_strings_stay_a_tuple():
    assert strings_from(iter(["a", "b"])) == ("a", "b")
    assert isinstance(strings_from(["a", "b"]), tuple)
    many = [str(i) for i in range(9)]
    assert isinstance(strings_from(many), Strings)
    assert strings_from(many) == many


def test_bounds_get_wider_for_long_data(monkeypatch):
    monkeypatch.setattr(packing, "_NARROW", 4)
    packing_ = Packing()
    for texts in (["a", "bb"], ["ccc"], ["d"]):
        packing_.add(parts_of(texts))
    assert packing_.bounds.dtype == np.uint64
    assert list(Strings(packing_.data, packing_.bounds)) == ["a", "bb", "ccc", "d"]


@FEW
@given(st.lists(TEXTS), st.lists(st.booleans(), min_size=9, max_size=9))
def test_interner_numbers_as_a_dictionary_does(batches, ways):
    interner, known = Interner(), {}
    for number, batch in enumerate(batches):
        expected = [known.setdefault(text, len(known)) for text in batch]
        if ways[number % len(ways)]:
            assert interner.numbers(batch).tolist() == expected
        else:
            assert [interner.number(text) for text in batch] == expected
        assert len(interner) == len(known)
        if ways[-1 - number % len(ways)]:
            assert list(interner.strings()) == list(known)
    assert list(interner.strings()) == list(known)


@FEW
@given(TEXTS)
def test_strings_with_equal_hashes_get_own_numbers(texts):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interning, "hash", lambda text: len(text) << 31, raising=False)
        interner = Interner(["", "a", "b"])
        known = list(dict.fromkeys(["", "a", "b", *texts]))
        expected = [known.index(text) for text in texts]
        assert [interner.number(text) for text in texts] == expected
        assert interner.numbers(texts).tolist() == expected


def test_returned_strings_do_not_change_later():
    interner = Interner([str(i) for i in range(9)])
    before = interner.strings()
    assert interner.number("new") == 9
    assert list(before) == [str(i) for i in range(9)]
    assert list(interner.strings()) == [*before, "new"]


def test_slots_hold_every_number_despite_collisions():
    slots, hashes = Slots(), np.zeros(40, dtype=np.uint32)
    assert slots.grow(40, lambda some: hashes[some])
    assert sorted(slots.from_hash(0)) == list(range(40))
    assert not slots.grow(40, lambda some: hashes[some])


def test_trace_with_packed_names_behaves_the_same():
    """Slices, devices and lookups by name do not depend on how the names are stored."""
    builder = TraceBuilder()
    thread = builder.track(Role.HOST_THREAD, "main", process=1, thread=1)
    for start in range(20):
        builder.slice(thread, Kind.OP, f"request {start % 13}", start, 1)
    trace = builder.finish(Meta("test"))
    assert isinstance(trace.strings, Strings)
    assert list(trace.strings) == ["main", *(f"request {i}" for i in range(13))]
    assert trace.string(-1) == ""
    assert trace.strings_where(["request 12", "main", "absent"]).tolist() == [0, 13]
    builder.slice(thread, Kind.OP, "late", 30, 1)
    assert builder.finish(Meta("test")).strings == [*trace.strings, "late"]
