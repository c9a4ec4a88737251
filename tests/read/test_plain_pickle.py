"""Pickles of plain values."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwhy.read.shared.plain_pickle import UnsafePickleError, load_plain

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner, inner)
    ),
    max_leaves=20,
)


@given(PLAIN, st.sampled_from([2, 4, 5]))
def test_plain_values_are_read_as_pickle_reads_them(value, protocol):
    loaded = load_plain(pickle.dumps(value, protocol))
    assert (loaded.value, loaded.complete) == (value, True)


@given(PLAIN, st.integers(0, 400), st.binary(max_size=3))
def test_damage_is_noticed_and_raises_nothing_else(value, place, inserted):
    data = pickle.dumps({"entries": [value]}, 2)
    place %= len(data)
    for damaged in (data[:place], data[:place] + inserted + data[place:]):
        try:
            load_plain(damaged)
        except UnsafePickleError:
            continue


@pytest.mark.parametrize("value", [object(), print, {1, 2}, b"bytes", 1j])
def test_other_values_are_refused(value):
    with pytest.raises(UnsafePickleError, match="at byte"):
        load_plain(pickle.dumps([value], 2))


@pytest.mark.parametrize("data", [b"", b"(", b"a", b"h\x05", b"u", b"\x85", b"}K\x01s", b"q\x00"])
def test_nonsense_ends_what_is_read(data):
    assert not load_plain(b"\x80\x02" + data).complete


def test_open_parts_are_closed_where_the_file_ends():
    value = {"a": [1, {"b": 2}], "c": "end"}
    data = pickle.dumps(value, 2)
    assert load_plain(data[: data.index(b"end")]).value == {"a": [1, {"b": 2}]}
