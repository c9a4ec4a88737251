"""Entries as columns: lanes, groups, and which run read from which."""

from bisect import bisect_right
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwhy.base.columns.groups import distinct_rows, group_rows
from stepwhy.base.columns.lanes import assign_lanes
from stepwhy.read.shared.tensorflow.activity import emit
from stepwhy.read.shared.tensorflow.dataflow import Dataflow
from stepwhy.read.shared.tensorflow.entries import Activity, Entries, Execution
from stepwhy.read.shared.tensorflow.rows import parse_row
from stepwhy.trace import NULL, Kind, Meta, Role, TraceBuilder

FEW = settings(derandomize=True, max_examples=60, deadline=None)
SMALL = st.integers(0, 5)


def ints(values):
    return np.asarray(values, dtype=np.int64)


@FEW
@given(st.lists(st.tuples(st.integers(0, 30), SMALL), min_size=1))
def test_an_entry_takes_the_first_lane_that_is_free(times):
    start, duration = (ints(column) for column in zip(*times, strict=True))
    ends, expected = [], {}
    for i in np.argsort(start, kind="stable").tolist():
        lane = next((k for k, end in enumerate(ends) if end <= start[i]), len(ends))
        ends[lane : lane + 1] = [start[i] + duration[i]]
        expected[i] = lane
    assert assign_lanes(start, duration).tolist() == [expected[i] for i in range(len(times))]


@FEW
@given(st.lists(st.tuples(SMALL, SMALL), min_size=1))
def test_rows_are_numbered_as_they_come(rows):
    columns = [ints(column) for column in zip(*rows, strict=True)]
    found, which = distinct_rows(*columns)
    assert found == list(dict.fromkeys(rows))
    assert [found[i] for i in which] == rows
    number = group_rows(*columns)[1]
    assert len(set(number.tolist())) == len(found)
    assert all((a == b) == (m == n) for (a, m), (b, n) in pairwise(zip(rows, number, strict=True)))


@FEW
@given(st.lists(st.tuples(SMALL, SMALL, st.lists(SMALL, max_size=3)), min_size=1))
def test_a_run_reads_what_was_made_last_before_it_began(runs):
    names = {**{str(n): n for n in range(5)}, "0/_7": 5}  # a receive stands for what was sent
    expected = set()
    made = {}
    for row, (node, start, _) in enumerate(runs):
        made.setdefault(node, []).append((start, row))
    for row, (_, start, reads) in enumerate(runs):
        for read in reads:
            candidates = sorted(made.get(read) or made.get(0 if read == 5 else read, []))
            if candidates:
                before = bisect_right(candidates, start, key=lambda run: run[0])
                expected.add((candidates[max(before - 1, 0)][1], row))
    assert emitted(runs, names) == {(a, b) for a, b in expected if a != b}


def activity(node, start, **what):
    row = parse_row("/job:localhost/replica:0/task:0/device:cpu:0")
    return Activity(row, "MatMul", node, start, 1, **what)


def test_equal_lists_of_inputs_are_held_once():
    lists = [("x", "y:1"), (), ("y", "x"), ("x:0", "y"), ("x", "y:1")]
    entries = Entries(activity(f"n{i}", i, inputs=inputs) for i, inputs in enumerate(lists))
    names, begins, counts = entries.inputs()
    known = list(entries.names)
    read = [
        [known[name] for name in names[begins[one] : begins[one] + counts[one]]]
        for one in entries["reads"].tolist()
    ]
    assert read == [["x", "y"], [], ["y", "x"], ["x", "y"], ["x", "y"]]
    assert len(counts) == 3
    assert list(entries.names) == ["MatMul", "n0", "x", "y", "n1", "n2", "n3", "n4"]


@FEW
@given(st.lists(SMALL, max_size=9))
def test_lanes_are_those_that_were_recorded(lanes):
    entries = Entries(activity("n", i, lane=lane) for i, lane in enumerate(lanes))
    assert entries.lanes().tolist() == lanes


def test_only_what_the_executor_recorded_is_held():
    known, nothing = Execution(5, NULL, 7, NULL), Execution(NULL, NULL, NULL, NULL)
    told = [None, known, nothing, None, known._replace(peak=9)]
    entries = Entries(activity("n", i, execution=one) for i, one in enumerate(told))
    assert entries["recorded"].tolist() == [1, 4]
    assert entries["peak"].tolist() == [7, 9]
    assert entries["requested"].tolist() == [NULL, NULL]


def test_what_is_in_the_trace_is_no_longer_held():
    known = Execution(5, 6, 7, 8)
    entries = Entries(
        activity(node, at, inputs=inputs, bytes=9, execution=known)
        for node, at, inputs in (("b", 5, ("a",)), ("a", 1, ()))
    )
    builder = TraceBuilder()
    builder.health.events_read = 2
    emit(builder, entries, entries.rows, in_lanes=True)
    trace = builder.finish(Meta("test"))
    assert trace.slices.start_ns.tolist() == [1, 5]
    assert (trace.flows.source.tolist(), trace.flows.target.tolist()) == ([0], [1])
    assert trace.executions.residual_bytes.tolist() == [8, 8]
    gone = ("start_ns", "dur_ns", "bytes", "reads", "recorded", *Execution._fields)
    assert [name for name in gone if len(entries[name])] == []


def emitted(runs, names):
    """The flows between runs of (node, start, nodes that it read)."""
    builder = TraceBuilder()
    track = builder.track(Role.EXECUTOR, "x")
    for _ in runs:  # all at one time, so that none moves
        builder.slice(track, Kind.KERNEL, "x", 0, 0)
    nodes, starts, reads = zip(*runs, strict=True)
    rows, counts = np.arange(len(runs)), ints([len(r) for r in reads])
    inputs = ints([name for r in reads for name in r])
    flow = Dataflow(rows, ints(nodes), ints(starts), names)
    flow.add_flows(builder, rows, inputs, np.cumsum(counts) - counts, counts)
    flows = builder.finish(Meta("test")).flows
    return set(zip(flows.source.tolist(), flows.target.tolist(), strict=True))
