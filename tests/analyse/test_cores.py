"""Runnable threads and cores of a process, from sampled counters."""

from __future__ import annotations

import pytest

from stepwhy.analyse.steps.cores import (
    children_cpu_ns_per_step,
    core_waits_ns_per_step,
    run_delay_share,
    runnable_threads,
    sibling_processes,
    usable_cores,
)
from stepwhy.trace.notation import parse


def run(*samples, constants=""):
    """A run with samples (seconds, CPU time, wait for cores, CPU time of the job) in seconds."""
    names = ("cpu_ns", "run_delay_ns", "job_cpu_ns")
    rows = "\n".join(
        f"{name} | {at} s | {value} s"
        for at, *values in samples
        for name, value in zip(names, values, strict=True)
    )
    lines = "\n".join(filter(None, ("counters: name | time_ns | value", constants, rows)))
    return parse(f"{lines}\n")


def test_threads_that_ended_are_left_out():
    trace = run((0, 0, 0, 0), (1, 2, 6, 2), (2, 4, 12, 4), (3, 1, 0, 6))
    assert runnable_threads(trace) == pytest.approx(8)
    assert runnable_threads(trace, (1_000_000_000, 3_000_000_000)) == pytest.approx(8)
    assert runnable_threads(trace, (2_000_000_000, 3_000_000_000)) is None
    assert runnable_threads(run()) is None


def test_the_share_of_waiting_is_that_while_no_thread_ends():
    # Totals of threads that end are gone: 4 s of running, 12 s of waiting are known.
    trace = run((0, 9, 0, 0), (1, 11, 6, 2), (2, 13, 12, 4), (3, 1, 13, 6))
    assert run_delay_share(trace) == 0.75
    assert run_delay_share(run((0, 9, 0, 0), (1, 1, 6, 2))) is None


def test_waits_for_cores_per_step():
    trace = run((0, 0, 0, 0), (1, 2, 6, 2), (2, 4, 12, 4), (3, 1, 0, 6))
    assert core_waits_ns_per_step(trace, 50_000_000) == 300_000_000  # of six threads at once
    assert core_waits_ns_per_step(run(), 50_000_000) is None


def test_processes_that_use_as_much_cpu_time():
    assert sibling_processes(run((0, 0, 0, 0), (1, 1, 1, 4))) == 4
    assert sibling_processes(run((0, 0, 0, 0), (1, 1, 1, 1))) == 1
    assert sibling_processes(run()) == 1


@pytest.mark.parametrize(
    ("constants", "expected"),
    [
        ("cores | 1 s | 8\nusable_cores | 1 s | 2", 2),
        ("cores | 1 s | 8", 8),
        ("usable_cores | 1 s | 2", 2),
        ("other | 1 s | 2", None),
    ],
)
def test_cores_that_the_process_may_use(constants, expected):
    assert usable_cores(run(constants=constants)) == expected


def test_cpu_time_of_workers_per_step():
    rows = [(0, 0, 0), (2, 2, 8)]
    values = "\n".join(
        f"{name} | {at} s | {value} s"
        for at, *values in rows
        for name, value in zip(("cpu_ns", "children_cpu_ns"), values, strict=True)
    )
    trace = parse(f"counters: name | time_ns | value\n{values}\n")
    assert children_cpu_ns_per_step(trace, 500_000_000) == 2_000_000_000
    assert children_cpu_ns_per_step(run(), 1) is None
