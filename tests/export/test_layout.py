"""Lanes of a viewer: slices of one lane nest."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.analyse.timeline import Timeline

from stepwhy.show.export.layout import lay_out, nesting_lanes
from stepwhy.trace import Kind


@pytest.mark.parametrize(
    ("spans", "lanes"),
    [
        ([(0, 9), (1, 3), (3, 9), (9, 12)], [0, 0, 0, 0]),
        ([(0, 5), (2, 7)], [0, 1]),
        ([(0, 5), (2, 7), (6, 9)], [0, 1, 0]),
        ([(0, 5), (0, 5), (5, 5)], [0, 0, 0]),
        ([], []),
    ],
)
def test_lanes(spans, lanes):
    assert nesting_lanes([a for a, _ in spans], [b for _, b in spans]) == lanes


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)), max_size=12))
def test_intervals_of_a_lane_nest_or_are_disjoint(drawn):
    spans = sorted(((a, a + d) for a, d in drawn), key=lambda s: (s[0], -s[1]))
    lanes = nesting_lanes([a for a, _ in spans], [b for _, b in spans])
    for i, (start, end) in enumerate(spans):
        for (later, until), lane in zip(spans[i + 1 :], lanes[i + 1 :], strict=True):
            if lane == lanes[i]:
                assert later >= end or until <= end, (start, end, later, until)


def test_devices_come_after_host_processes():
    drawn = Timeline()
    drawn.add(drawn.stream(), Kind.KERNEL, 1, 3)
    drawn.add(drawn.stream(), Kind.KERNEL, 2, 4)
    drawn.add(drawn.thread(process=17), Kind.OP, 0, 2)
    layout = lay_out(drawn.trace())
    assert layout.processes == ("host process 17", "GPU:0")
    assert [(t.process, t.name) for t in layout.threads] == [
        (2, "stream 7"),
        (2, "stream 7 (2)"),
        (1, "main"),
    ]
    assert layout.place(0) == (1, 3)


def test_devices_of_a_cluster_have_distinct_names_in_perfetto():
    line = Timeline()
    for job in ("ps", "worker"):
        device = f"/job:{job}/task:0 CPU:0"
        line.add(line.executor(device=device), Kind.KERNEL, 0, 1)
    shown = ("job:ps task:0 CPU:0", "job:worker task:0 CPU:0")
    assert lay_out(line.trace()).processes == shown
