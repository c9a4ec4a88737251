"""The whole run for the charts of the page."""

import itertools

import numpy as np
import pytest
from tests.export.timelines import varints

from stepwhy.analyse.facts import Facts
from stepwhy.show.timeline import run as runs
from stepwhy.show.timeline.run import packed_run, whole_run
from stepwhy.trace.notation import parse

TRACE = """
unit: 1 ms
framework: pytorch
main step |[----][----][----]|
main op   |aaa   aaa   aaa   |  a=aten::mm
"""


def marks(*rows):
    """The step log of a run: start, duration and whether each step was traced."""
    lines = [f"{start} ms | {length} ms | {int(traced)}" for start, length, traced in rows]
    return "\n".join(["", "marks: start_ns | dur_ns | profiled", *lines, ""])


def test_observed_steps_are_the_run():
    run = whole_run(Facts(parse(TRACE + marks((0, 5, False), (10, 7, True), (20, 5, False)))))
    assert run.duration_ns.tolist() == [5_000_000, 7_000_000, 5_000_000]
    assert run.traced.tolist() == [0, 1, 0]
    assert run.count == 3


def test_without_a_step_log_the_recorded_steps_are_the_run():
    run = whole_run(Facts(parse(TRACE)))
    assert run.number.tolist() == [1, 2, 3]
    assert run.duration_ns.tolist() == [6_000_000] * 3
    assert run.traced.tolist() == [0, 0, 0]


def test_columns_are_differences():
    packed = packed_run(Facts(parse(TRACE + marks((3, 5, False), (10, 7, True), (20, 5, False)))))
    assert varints(packed.columns["run_number"]) == [1, 1, 1]
    assert varints(packed.columns["run_start"]) == [0, 7_000_000, 10_000_000]
    assert varints(packed.columns["run_duration"]) == [5_000_000, 7_000_000, 5_000_000]
    assert varints(packed.columns["run_traced"]) == [0, 1, 0]
    assert packed.about.steps == packed.about.count == 3


def test_what_was_sampled_during_the_run_is_in_it():
    counters = "\ncounters: name | time_ns | value\nresident_bytes | 12 ms | 1 GiB\n"
    steps = marks((0, 5, False), (10, 7, False), (20, 5, False))
    packed = packed_run(Facts(parse(TRACE + steps + counters)))
    [row] = packed.about.rows
    assert row.title == "memory of the process"
    assert row.series.most == 1 << 30
    assert varints(packed.columns["run_sample_time"])[0] == 12_000_000


def test_a_single_step_has_no_chart():
    assert packed_run(Facts(parse(TRACE + marks((0, 5, False))))) is None


def test_a_long_run_keeps_the_fastest_the_slowest_and_all_traced_steps(monkeypatch):
    monkeypatch.setattr(runs, "MOST_STEPS", 20)
    lengths = np.random.default_rng(1).integers(2, 9, 400)
    lengths[[33, 301]] = [1, 90]
    starts = itertools.accumulate([0, *(lengths[:-1] + 1)])
    steps = [(s, n, i == 100) for i, (s, n) in enumerate(zip(starts, lengths, strict=True))]
    run = whole_run(Facts(parse(TRACE + marks(*steps))))
    assert len(run.number) <= 21
    assert {34, 101, 302} <= set(run.number.tolist())
    assert run.count == 400
    for name in ("start_ns", "duration_ns"):
        every = np.array([step[name == "duration_ns"] for step in steps]) * 1_000_000
        assert getattr(run, name).tolist() == every[run.number - 1].tolist()


@pytest.mark.parametrize("count", [2, 3])
def test_a_short_run_is_complete(count):
    rows = [(10 * i, 5, False) for i in range(count)]
    assert len(whole_run(Facts(parse(TRACE + marks(*rows)))).number) == count
