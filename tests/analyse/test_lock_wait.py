"""Threads that prepare batches hold the driving one up: every figure by hand."""

import pytest
from tests.analyse.timeline import MS, Timeline

from stepwhy.analyse.answers.verdict import decide
from stepwhy.analyse.facts import Facts
from stepwhy.trace import Kind, SampleRole


def run(*, cpu, at_once, compute=20, entry="py_func"):
    """A step of 100 ms, `compute` of it on the CPU, the rest in the framework by the trace.

    Args:
        cpu: CPU time of the driving thread, ms; None: unknown.
        at_once: How many threads prepare batches in Python.
        compute: ms in which an operation runs.
        entry: What calls their Python.
    """
    line = Timeline().steps(0, 100)
    for i in range(compute):
        line.add(line.executor(), Kind.KERNEL, i, i + 1)
    for i in range(compute, 100):
        line.add(line.thread(), Kind.OP, i, i + 1)
    for i in range(20):
        line.mark(1000 + 100 * i, 1100 + 100 * i, cpu=cpu)
    for role, where, called, count in (
        (SampleRole.DRIVER, "train.py(40): main", "", 100),
        (SampleRole.THREAD, "data.py(7): decode", entry, round(100 * at_once)),
    ):
        line.builder.add(
            "samples",
            role=int(role),
            line=line.builder.intern(where),
            package=line.builder.intern(""),
            count=count,
            **({"entry": line.builder.intern(called)} if called else {}),
        )
    return Facts(line.trace())


@pytest.mark.parametrize(
    ("cpu", "at_once", "expected"),
    [
        (5, 1.0, 75),  # 80 ms of launching, of which 5 on a core
        (5, 3.0, 75),  # one of them at a time
        (5, 0.5, 50),  # the lock was taken for half of the step
        (80, 1.0, 0),
        (95, 1.0, 0),
        (None, 1.0, 0),
    ],
)
def test_time_off_the_core(cpu, at_once, expected):
    assert run(cpu=cpu, at_once=at_once).lock_wait_ns == expected * MS


def test_other_threads_that_prepare_no_batches_hold_nobody_up():
    assert run(cpu=5, at_once=1.0, entry="").lock_wait_ns == 0


def test_it_is_a_wait_for_input_and_the_breakdown_stays_closed():
    facts = run(cpu=5, at_once=1.0)
    parts = {name: ns // MS for name, ns in facts.breakdown.items() if ns}
    assert parts == {"compute": 20, "dispatch": 5, "input_wait": 75}
    assert facts.wall_ns == 100 * MS


def test_a_wait_too_short_to_be_told_stays_where_it_is():
    facts = run(cpu=72, at_once=1.0)
    assert (facts.lock_wait_ns, facts.breakdown["dispatch"]) == (0, 80 * MS)


def test_the_verdict_says_so():
    bound = decide(run(cpu=5, at_once=1.0)).reason
    assert (bound.by, bound.time_ns, bound.locked) == ("input", 75 * MS, True)


def test_where_the_thread_used_its_core_the_host_holds_the_step_up():
    assert decide(run(cpu=70, at_once=1.0)).bound_by == "host"
    assert decide(run(cpu=5, at_once=1.0, compute=85)).bound_by == "compute"
