"""Interval algebra against boolean arrays."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepwhy.base.columns import chunks
from stepwhy.base.columns import intervals as intervals_module
from stepwhy.base.columns.intervals import Intervals, first_of, windows_at
from stepwhy.base.columns.null import NULL

FEW = settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],  # `chunk` is not changed
)
SPAN = 40
spans = st.lists(st.tuples(st.integers(0, SPAN), st.integers(0, SPAN)), max_size=8)


def intervals(pairs):
    array = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
    return Intervals.of(array[:, 0], array[:, 1])


def cells(pairs):
    """Which unit of time each pair covers; pairs that end before they begin cover nothing."""
    covered = np.zeros(SPAN, dtype=bool)
    for start, end in pairs:
        covered[start:end] = True
    return covered


def of(one):
    return cells(zip(one.starts, one.ends, strict=True))


def assert_canonical(one):
    assert (one.starts < one.ends).all()
    assert (one.ends[:-1] < one.starts[1:]).all()


@FEW
@given(spans, spans)
def test_set_operations(a, b):
    one, other = intervals(a), intervals(b)
    both, either, without = one & other, one | other, one - other
    for result, expected in (
        (one, cells(a)),
        (either, cells(a) | cells(b)),
        (both, cells(a) & cells(b)),
        (without, cells(a) & ~cells(b)),
    ):
        assert_canonical(result)
        assert of(result).tolist() == expected.tolist()
        assert result.total_ns == expected.sum()


@pytest.fixture(params=[2, chunks.CHUNK])
def chunk(request, monkeypatch):
    """Rows of a chunk."""
    monkeypatch.setattr(chunks, "CHUNK", request.param)
    monkeypatch.setattr(intervals_module, "CHUNK", request.param)


@pytest.mark.usefixtures("chunk")
@FEW
@given(st.lists(st.tuples(st.integers(0, SPAN), st.integers(0, 9)), max_size=12), st.booleans())
def test_union_of_slices(slices, is_reversed):
    slices = sorted(slices)
    columns = np.asarray(slices, dtype=np.int64).reshape(-1, 2)
    rows = np.arange(len(slices))[:: -1 if is_reversed else 1]
    found = Intervals.of_slices(columns[:, 0], columns[:, 1], rows)
    assert_canonical(found)
    assert of(found).tolist() == cells((start, start + length) for start, length in slices).tolist()


@pytest.mark.usefixtures("chunk")
@FEW
@given(spans, st.lists(st.integers(-1, SPAN + 1)))
def test_windows_at(windows, times):
    one = intervals(windows)
    bounds = list(zip(one.starts.tolist(), one.ends.tolist(), strict=True))
    found = windows_at(np.asarray(times, dtype=np.int64), one.starts, one.ends)
    assert found.tolist() == [
        next((i for i, (start, end) in enumerate(bounds) if start <= time < end), NULL)
        for time in times
    ]


@pytest.mark.usefixtures("chunk")
@FEW
@given(st.lists(spans, min_size=1, max_size=4))
def test_union_of_sets(several):
    found = Intervals.union([intervals(pairs) for pairs in several])
    assert_canonical(found)
    assert of(found).tolist() == np.any([cells(pairs) for pairs in several], axis=0).tolist()


@pytest.mark.usefixtures("chunk")
@FEW
@given(st.lists(spans, min_size=1, max_size=4))
def test_first_of_assigns_every_time_to_the_first_set_with_it(several):
    parts = first_of([intervals(pairs) for pairs in several])
    covered = np.zeros(SPAN, dtype=bool)
    for pairs, part in zip(several, parts, strict=True):
        assert_canonical(part)
        assert of(part).tolist() == (cells(pairs) & ~covered).tolist()
        covered |= cells(pairs)
    assert of(Intervals.union(parts)).tolist() == covered.tolist()


@FEW
@given(spans)
def test_covered_is_when_more_has_begun_than_has_ended(pairs):
    lasting = [(start, end) for start, end in pairs if start < end]
    begins, ends = np.asarray(lasting, dtype=np.int64).reshape(-1, 2).T
    covered = Intervals.covered(begins[::-1], ends)
    assert_canonical(covered)
    assert of(covered).tolist() == cells(lasting).tolist()


@FEW
@given(spans, st.lists(st.integers(-5, SPAN + 5), min_size=1, max_size=8))
def test_before_and_within(pairs, times):
    covered = cells(pairs)
    expected = [int(covered[: max(t, 0)].sum()) for t in times]
    at = np.asarray(times)
    assert intervals(pairs).before(at).tolist() == expected
    from_zero = intervals(pairs).within(np.zeros_like(at), at)
    assert from_zero.tolist() == expected


@FEW
@given(spans, st.integers(0, 6))
def test_short_gaps(pairs, longest):
    gaps = intervals(pairs).gaps_up_to(longest)
    covered = cells(pairs)
    expected = np.zeros(SPAN, dtype=bool)
    inside = np.flatnonzero(covered)
    for before, after in pairwise(inside):
        if 1 < after - before <= longest + 1:
            expected[before + 1 : after] = True
    assert of(gaps).tolist() == expected.tolist()


def test_touching_intervals_are_merged():
    one = intervals([(0, 3), (3, 5)])
    assert (one.starts.tolist(), one.ends.tolist()) == ([0], [5])


def test_the_empty_set():
    empty = Intervals.empty()
    assert len(empty) == len(Intervals.single(3, 3)) == len(Intervals.single(3, 2)) == 0
    assert (empty | empty).total_ns == (empty & empty).total_ns == (empty - empty).total_ns == 0
    assert empty.before(np.asarray([1, 2])).tolist() == [0, 0]


def test_epoch_nanoseconds_stay_exact():
    start = 1_712_345_678_901_234_567
    one = Intervals.single(start, start + 1)
    assert one.total_ns == 1
    assert one.within(np.asarray([start]), np.asarray([start + 5])).tolist() == [1]
