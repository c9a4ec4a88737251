"""The work of the host that a step contains whatever the device does."""

import pytest
from tests.analyse.timeline import MS, Timeline

from stepwhy.analyse.answers.verdict import decide
from stepwhy.analyse.facts import Facts
from stepwhy.analyse.run.host_path import host_path_ns, least_step_ns
from stepwhy.diagnose import run_all
from stepwhy.engine.pricing import priced
from stepwhy.predict import price
from stepwhy.result.edits import parse_edit
from stepwhy.trace import Copy, Kind

SIGNALS = frozenset({"runtime-calls", "device-activity"})


def copying(*work, steps=6):
    """Steps of 100 ms: a copy of 75 ms beside work of the host, and a kernel to wait for."""
    line = Timeline().steps(*range(0, 100 * steps + 1, 100))
    for i in range(steps):
        at = 100 * i
        copy = {"kind": Kind.MEMCPY, "copy": int(Copy.H2D), "bytes": 750_000_000}
        line.launch((at, at + 0.1), (at + 0.2, at + 75), 3 * i + 1, **copy)
        for kind, start, end in work:
            line.add(line.thread(), kind, at + start, at + end, name="prepare")
        line.launch((at + 97, at + 97.1), (at + 97.2, at + 99.9), 3 * i + 2)
        line.add(line.thread(), Kind.SYNC, at + 97.2, at + 100)
    return Facts(line.trace(signals=SIGNALS))


RANGES = [(Kind.ANNOTATION, 1, 60), (Kind.ANNOTATION, 60, 97)]


def test_ranges_of_the_program_are_work_where_nothing_else_was_recorded():
    facts = copying(*RANGES)
    assert host_path_ns(facts) == 96 * MS
    assert facts.breakdown["python"] == 22 * MS  # while no copy runs


def test_ranges_around_ranges_and_around_operations_show_nothing():
    assert host_path_ns(copying((Kind.ANNOTATION, 1, 90), (Kind.ANNOTATION, 2, 3))) == 1 * MS
    assert host_path_ns(copying((Kind.ANNOTATION, 1, 90), (Kind.OP, 2, 3))) == 1 * MS


def test_a_host_that_works_throughout_does_not_wait_for_copies():
    decision = decide(copying(*RANGES))
    assert (decision.bound_by, decision.reason.host_ns) == ("host", 96 * MS)
    assert decide(copying((Kind.ANNOTATION, 1, 60))).bound_by == "transfer"


@pytest.mark.parametrize("work", [RANGES, [(Kind.OP, 1, 97)]])
def test_savings_leave_the_step_the_work_of_the_host(work):
    facts = copying(*work)
    findings = [f for f in priced(facts, run_all(facts)) if f.saving is not None]
    assert {"pageable-copy", "exposed-transfer"} & {f.id for f in findings}
    assert all(f.saving.high_ns <= 4 * MS for f in findings if f.edit.what == "copies")
    copies = price(facts, [parse_edit("copies=overlapped")])
    assert getattr(copies, "low_ns", facts.wall_ns) >= 96 * MS


def test_an_edit_of_the_host_may_shorten_its_own_part():
    facts = copying((Kind.OP, 1, 41), (Kind.PYTHON, 41, 61), (Kind.INPUT, 61, 91))
    expected = {
        "copies=overlapped": 90, "copies=gone": 50, "python=gone": 70, "input=free": 60,
        "launches=gone": 50, "syncs=gone": 90, "profiler=gone": 0,
    }  # fmt: skip
    found = {edit: least_step_ns(facts, [parse_edit(edit)]) // MS for edit in expected}
    assert found == expected


def test_what_a_callback_calls_goes_with_it():
    line = Timeline().steps(0, 100)
    line.add(line.thread(), Kind.FRAMEWORK, 0, 90)
    line.add(line.executor(), Kind.PYTHON, 20, 80, name="pure_callback.1")
    line.launch((90, 91), (91, 100), 1)
    facts = Facts(line.trace(signals=SIGNALS))
    found = [least_step_ns(facts, [parse_edit(e)]) for e in ("python=replaced", "copies=pinned")]
    assert found == [30 * MS, 90 * MS]


def test_without_calls_of_the_api_nothing_is_known_of_the_host():
    line = Timeline().steps(0, 100)
    line.add(line.thread(), Kind.OP, 0, 100)
    line.add(line.stream(), Kind.KERNEL, 0, 100)
    assert host_path_ns(Facts(line.trace())) == 0
