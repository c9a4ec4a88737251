"""Call trees: parents, self time, innermost slices, and slices that overlap without nesting."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.analyse.timeline import Timeline

from stepwhy.base.columns import compiled
from stepwhy.base.columns import nesting as nesting_pass
from stepwhy.base.columns.nesting import (
    callers,
    inherit,
    innermost_at,
    innermost_time,
    inside,
    nearest,
    outermost,
)
from stepwhy.base.columns.null import NULL
from stepwhy.trace import Kind, Role

FEW = settings(max_examples=150, deadline=None, derandomize=True)


def drawn(*spans, kinds=None):
    line = Timeline(unit_ns=1)
    for i, span in enumerate(spans):
        line.add(line.thread(), kinds[i] if kinds else Kind.OP, *span)
    return line.trace()


def nest(trace):
    return nesting_pass.nest(trace.slices, trace.tracks.role != Role.STREAM)


def depths(nesting):
    """Number of ancestors of every slice."""
    found = []
    for parent in nesting.parent.tolist():
        found.append(0 if parent == NULL else found[parent] + 1)
    return found


def assert_equal(one, other):
    for name in ("parent", "cut", "cut_end_ns"):
        values = getattr(one, name)
        assert values.tolist() == getattr(other, name).tolist(), name
        assert values.dtype == getattr(other, name).dtype
    assert self_ns(one).tolist() == self_ns(other).tolist()


def self_ns(nesting):
    """Self time of every slice, ns."""
    return nesting.self_ns(np.arange(len(nesting.parent)))


def test_a_call_tree():
    nesting = nest(drawn((0, 100), (10, 40), (20, 30), (50, 60), (120, 130)))
    assert nesting.parent.tolist() == [NULL, 0, 1, 0, NULL]
    assert depths(nesting) == [0, 1, 2, 1, 0]
    assert self_ns(nesting).tolist() == [60, 20, 10, 10, 10]


def test_slices_that_only_touch_do_not_nest():
    assert nest(drawn((0, 10), (10, 20))).parent.tolist() == [NULL, NULL]


def test_equal_slices_nest_in_file_order():
    nesting = nest(drawn((0, 10), (0, 10)))
    assert nesting.parent.tolist() == [NULL, 0]
    assert self_ns(nesting).tolist() == [0, 10]


def test_overlapping_child_is_cut_at_its_parents_end():
    nesting = nest(drawn((0, 10), (4, 12)))
    assert nesting.parent.tolist() == [NULL, 0]
    assert self_ns(nesting).tolist() == [4, 6]


def test_device_streams_do_not_nest():
    line = Timeline(unit_ns=1)
    line.add(line.stream(), Kind.KERNEL, 0, 10)
    line.add(line.stream(), Kind.KERNEL, 2, 5)
    trace = line.trace()
    nesting = nest(trace)
    assert nesting.parent.tolist() == [NULL, NULL]
    assert self_ns(nesting).tolist() == [10, 3]


spans = st.tuples(st.integers(-10, 40), st.integers(0, 12)).map(lambda s: (s[0], s[0] + s[1]))


@FEW
@given(st.lists(spans, max_size=12))
def test_self_times_sum_to_the_time_of_top_level_slices(drawn_spans):
    trace = drawn(*drawn_spans)
    nesting = nest(trace)
    top = nesting.parent == NULL
    covered = {
        t
        for start, end in zip(trace.slices.start_ns[top], trace.end_ns[top], strict=True)
        for t in range(start, end)
    }
    assert self_ns(nesting).sum() == len(covered)
    assert (self_ns(nesting) >= 0).all()
    assert (self_ns(nesting) <= trace.slices.dur_ns).all()


@FEW
@given(st.lists(st.tuples(spans, st.booleans()), max_size=12))
def test_deepest_slice_is_innermost_at_every_nanosecond(chosen_spans):
    kinds = [Kind.OP if chosen else Kind.PYTHON for _, chosen in chosen_spans]
    trace = drawn(*(span for span, _ in chosen_spans), kinds=kinds)
    nesting, rows = nest(trace), np.arange(len(chosen_spans))
    starts, ends = trace.slices.start_ns, nesting.ends(rows)
    time = innermost_time(nesting, trace.is_kind(Kind.OP))
    for t in range(-11, 60):
        around = [row for row in rows if starts[row] <= t < ends[row]]
        deepest = max(around, key=depths(nesting).__getitem__, default=NULL)
        assert innermost_at(nesting, rows, starts, t) == deepest
        is_op = deepest != NULL and trace.slices.kind[deepest] == Kind.OP
        assert time.within(np.asarray([t]), np.asarray([t + 1])).tolist() == [is_op]


def test_nesting_in_batches_equals_nesting_at_once(monkeypatch):
    many = [(t + shift, t + end) for t in range(0, 400, 20) for shift, end in ((0, 15), (3, 17))]
    whole = nest(drawn(*many))
    monkeypatch.setattr(nesting_pass, "_BATCH", 5)
    batched = nest(drawn(*many))
    assert_equal(batched, whole)
    assert whole.cut_end_ns.tolist() == list(range(15, 400, 20))


def test_innermost_time_is_computed_per_thread():
    line = Timeline(unit_ns=1)
    line.add(line.thread(), Kind.OP, 0, 20)
    line.add(line.thread(), Kind.PYTHON, 5, 10)
    line.add(line.thread(name="other"), Kind.OP, 8, 30)
    trace = line.trace()
    time = innermost_time(nest(trace), trace.is_kind(Kind.OP))
    assert list(zip(time.starts.tolist(), time.ends.tolist(), strict=True)) == [(0, 5), (8, 30)]


def test_inherit_gives_the_value_of_the_nearest_ancestor():
    nesting = nest(drawn((0, 100), (10, 90), (20, 80), (30, 40)))
    own = np.asarray([1, 0, 2, 0], dtype=np.int8)
    assert inherit(nesting.parent, own) is own
    assert own.tolist() == [1, 1, 2, 2]


def test_inside():
    kinds = [Kind.INPUT, Kind.OP, Kind.OP, Kind.OP]
    trace = drawn((0, 50), (10, 40), (20, 30), (60, 70), kinds=kinds)
    assert inside(nest(trace), trace.is_kind(Kind.INPUT)).tolist() == [True, True, True, False]


def test_callers_contain_a_chosen_slice_directly():
    nesting = nest(drawn((0, 50), (10, 40), (20, 30), (60, 70)))
    chosen = np.asarray([False, False, True, True])
    assert callers(nesting, chosen).tolist() == [False, True, False, False]
    assert not callers(nesting, np.zeros(4, dtype=bool)).any()


def test_nearest_and_outermost():
    trace = drawn((0, 50), (10, 40), (20, 30), (60, 70))
    nesting = nest(trace)
    chosen = np.asarray([False, True, False, True])
    assert nearest(nesting, chosen).tolist() == [NULL, 1, 1, 3]
    assert outermost(nesting, np.asarray([1, 2, 3])).tolist() == [1, 3]


def test_nothing_to_nest():
    nesting = nest(Timeline().trace())
    assert len(nesting.parent) == len(self_ns(nesting)) == len(nesting.cut) == 0


def test_inside_reaches_every_level_of_a_deep_tree():
    line = Timeline(unit_ns=1)
    depth = 3000
    for level in range(depth):
        kind = Kind.INPUT if level == 1 else Kind.OP
        line.add(line.thread(), kind, level, 2 * depth - level)
    trace = line.trace()
    is_inside = inside(nest(trace), trace.is_kind(Kind.INPUT))
    assert is_inside.tolist() == [False] + [True] * (depth - 1)


trees = st.lists(st.tuples(spans, st.sampled_from(["a", "b", "stream"])), max_size=25)


def traced(rows):
    line = Timeline(unit_ns=1)
    tracks = {"a": line.thread(name="a"), "b": line.thread(name="b"), "stream": line.stream()}
    for span, track in rows:
        line.add(tracks[track], Kind.KERNEL if track == "stream" else Kind.OP, *span)
    return line.trace()


@pytest.mark.usefixtures("kernels")
@FEW
@given(trees)
def test_compiled_nesting_equals_numpy(rows):
    trace = traced(rows)
    slowly = nest(trace)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_FEW", "_MANY"):
            patch.setattr(compiled, name, 0)
        assert_equal(nest(trace), slowly)
        for room in (1, 2):  # too small for all cuts, so it has to grow
            patch.setattr(nesting_pass, "_CUT_ROOM", room)
            assert_equal(nest(trace), slowly)


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32])
def test_compiled_nesting_accepts_tracks_of_any_width(monkeypatch, dtype):
    trace = traced([((0, 9), "a"), ((1, 12), "b"), ((2, 5), "a"), ((3, 15), "b"), ((4, 7), "b")])
    slowly = nest(trace)
    trace.slices.track = trace.slices.track.astype(dtype)
    for name in ("_FEW", "_MANY"):
        monkeypatch.setattr(compiled, name, 0)
    assert_equal(nest(trace), slowly)
    assert slowly.cut_end_ns.tolist() == [12]


@pytest.mark.usefixtures("kernels")
@FEW
@given(trees, st.data())
def test_compiled_inherit_equals_numpy(rows, data):
    nesting = nest(traced(rows))
    for dtype, null in ((np.int8, 0), (np.int32, NULL)):
        values = st.lists(st.integers(null, 3), min_size=len(rows), max_size=len(rows))
        own = np.array(data.draw(values), dtype=dtype)
        expected = inherited(nesting.parent.tolist(), own.tolist(), null)
        assert inherit(nesting.parent, own.copy(), null).tolist() == expected
        with pytest.MonkeyPatch.context() as patch:
            for name in ("_FEW", "_MANY"):
                patch.setattr(compiled, name, 0)
            found = inherit(nesting.parent, own, null)
        assert (found.tolist(), found.dtype) == (expected, own.dtype)


def inherited(parent, own, null):
    values = []
    for above, value in zip(parent, own, strict=True):
        values.append(values[above] if value == null and above != NULL else value)
    return values


@FEW
@given(trees, st.data())
def test_outermost_of_few_and_many_slices(rows, data):
    nesting = nest(traced(rows))
    chosen = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    parent, expected = nesting.parent.tolist(), []
    for row in np.flatnonzero(chosen).tolist():
        above = parent[row]
        while above != NULL and not chosen[above]:
            above = parent[above]
        expected += [row] if above == NULL else []
    for sparse in (0, 1 << 30):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(nesting_pass, "_SPARSE", sparse)
            assert outermost(nesting, np.flatnonzero(chosen)).tolist() == expected
