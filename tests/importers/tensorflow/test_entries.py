"""Entries as columns: lanes, groups, and which run read from which."""

from bisect import bisect_right
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwhy.importers.tensorflow import distinct as groups_of
from stepwhy.importers.tensorflow.dataflow import Dataflow
from stepwhy.importers.tensorflow.distinct import distinct, groups
from stepwhy.importers.tensorflow.lanes import assign_lanes
from stepwhy.trace import Kind, Meta, Role, TraceBuilder

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
@given(st.lists(st.tuples(SMALL, SMALL), min_size=1), st.integers(1, 7))
def test_rows_are_numbered_as_they_come(rows, size):
    columns = [ints(column) for column in zip(*rows, strict=True)]
    whole, groups_of._PIECE = groups_of._PIECE, size
    try:
        found, which = distinct(*columns)
    finally:
        groups_of._PIECE = whole
    assert found == list(dict.fromkeys(rows))
    assert [found[i] for i in which] == rows
    number = groups(*columns)
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
    flow.emit(builder, rows, inputs, np.cumsum(counts) - counts, counts)
    flows = builder.finish(Meta("test")).flows
    return set(zip(flows.source.tolist(), flows.target.tolist(), strict=True))
