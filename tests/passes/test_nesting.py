"""Call trees: parents, self time, innermost slices, and slices that overlap without nesting."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.passes.timeline import Timeline

from stepwhy.passes.nesting import NO_PARENT, inherit, nest, under
from stepwhy.trace import Kind

FEW = settings(max_examples=150, deadline=None, derandomize=True)


def drawn(*spans, kinds=None):
    line = Timeline(unit_ns=1)
    for i, span in enumerate(spans):
        line.add(line.thread(), kinds[i] if kinds else Kind.OP, *span)
    return line.trace()


def test_a_call_tree():
    nesting = nest(drawn((0, 100), (10, 40), (20, 30), (50, 60), (120, 130)))
    assert nesting.parent.tolist() == [NO_PARENT, 0, 1, 0, NO_PARENT]
    assert nesting.depth.tolist() == [0, 1, 2, 1, 0]
    assert nesting.self_ns.tolist() == [60, 20, 10, 10, 10]


def test_slices_that_only_touch_do_not_nest():
    assert nest(drawn((0, 10), (10, 20))).parent.tolist() == [NO_PARENT, NO_PARENT]


def test_an_equal_span_nests_in_the_order_of_the_file():
    nesting = nest(drawn((0, 10), (0, 10)))
    assert nesting.parent.tolist() == [NO_PARENT, 0]
    assert nesting.self_ns.tolist() == [0, 10]


def test_jitter_cuts_the_child_at_its_parents_end():
    nesting = nest(drawn((0, 10), (4, 12)))
    assert nesting.parent.tolist() == [NO_PARENT, 0]
    assert nesting.self_ns.tolist() == [4, 6]


def test_device_streams_do_not_nest():
    line = Timeline(unit_ns=1)
    line.add(line.stream(), Kind.KERNEL, 0, 10)
    line.add(line.stream(), Kind.KERNEL, 2, 5)
    nesting = nest(line.trace())
    assert nesting.parent.tolist() == [NO_PARENT, NO_PARENT]
    assert nesting.self_ns.tolist() == [10, 3]
    assert len(nesting.segment_row) == 0


spans = st.tuples(st.integers(-10, 40), st.integers(0, 12)).map(lambda s: (s[0], s[0] + s[1]))


@FEW
@given(st.lists(spans, max_size=12))
def test_self_times_sum_to_the_time_in_which_an_outermost_slice_runs(drawn_spans):
    trace = drawn(*drawn_spans)
    nesting = nest(trace)
    top = nesting.parent == NO_PARENT
    covered = {
        t
        for start, end in zip(trace.slices.start_ns[top], trace.end_ns[top], strict=True)
        for t in range(start, end)
    }
    assert nesting.self_ns.sum() == len(covered)
    assert (nesting.self_ns >= 0).all()
    assert (nesting.self_ns <= trace.slices.dur_ns).all()


@FEW
@given(st.lists(spans, max_size=12))
def test_segments_are_disjoint_and_lie_in_their_slices(drawn_spans):
    trace = drawn(*drawn_spans)
    nesting = nest(trace)
    starts, ends, rows = nesting.segment_start_ns, nesting.segment_end_ns, nesting.segment_row
    order = np.argsort(starts)
    assert (starts < ends).all()
    assert (ends[order][:-1] <= starts[order][1:]).all()
    assert (starts >= trace.slices.start_ns[rows]).all()
    assert (ends <= trace.end_ns[rows]).all()
    deeper = nesting.parent >= 0
    assert (nesting.depth[deeper] == nesting.depth[nesting.parent[deeper]] + 1).all()


def test_inherit_gives_the_value_of_the_nearest_ancestor():
    nesting = nest(drawn((0, 100), (10, 90), (20, 80), (30, 40)))
    own = np.asarray([1, 0, 2, 0], dtype=np.int8)
    assert inherit(nesting, own).tolist() == [1, 1, 2, 2]
    assert own.tolist() == [1, 0, 2, 0]


def test_under():
    kinds = [Kind.INPUT, Kind.OP, Kind.OP, Kind.OP]
    trace = drawn((0, 50), (10, 40), (20, 30), (60, 70), kinds=kinds)
    assert under(trace, nest(trace), Kind.INPUT).tolist() == [True, True, True, False]


def test_nothing_to_nest():
    nesting = nest(Timeline().trace())
    assert len(nesting.parent) == len(nesting.segment_row) == 0


def test_a_deep_tree_passes_its_value_down_every_level():
    line = Timeline(unit_ns=1)
    depth = 3000
    for level in range(depth):
        kind = Kind.INPUT if level == 1 else Kind.OP
        line.add(line.thread(), kind, level, 2 * depth - level)
    trace = line.trace()
    inside = under(trace, nest(trace), Kind.INPUT)
    assert inside.tolist() == [False] + [True] * (depth - 1)
