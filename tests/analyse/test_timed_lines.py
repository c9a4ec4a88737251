"""The breakdown by line where the running line was noted without the operations."""

import random

import numpy as np
import pytest
from tests.analyse.test_lines import FORWARD, OTHER, STEP, Program

from stepwhy.analyse.facts import Facts
from stepwhy.analyse.lines.by_line import line_breakdown
from stepwhy.analyse.lines.driver_lines import DriverParts
from stepwhy.analyse.lines.timed_lines import lines_at, with_times
from stepwhy.result import CATEGORIES
from stepwhy.trace import NULL, Kind


def test_a_step_spends_the_same_share_of_its_time_at_each_line():
    run = Program().steps(0, 100)
    run.op(10, 90, "EagerExecute")
    run.note((None, FORWARD, 1), (None, OTHER, 3))
    assert run.times() == {FORWARD: 25, OTHER: 75}
    assert run.lines().source == "clock"


def test_several_noted_steps_stand_for_several_recorded_ones():
    run = Program().steps(0, 100, 200)
    run.op(10, 90, "EagerExecute").op(110, 190, "EagerExecute")
    run.note((None, FORWARD, 1), (None, OTHER, 3), step=50)
    run.note((None, FORWARD, 3), (None, OTHER, 1), step=51)
    assert run.times() == {FORWARD: 50, OTHER: 50}


def test_a_line_that_the_trace_records_comes_first():
    run = Program().steps(0, 100)
    run.op(0, 40, "MatMul", source=STEP).op(60, 100, "EagerExecute")
    run.note((None, OTHER, 5), (None, FORWARD, 5))
    assert run.times() == {STEP: 40, OTHER: 10, FORWARD: 50}


def test_time_outside_of_the_program_is_credited_to_nobody():
    run = Program().steps(0, 100)
    run.op(0, 100, "EagerExecute")
    run.note((None, None, 1), (None, FORWARD, 3))
    assert run.times() == {"uncredited": 25, FORWARD: 75}


def test_a_kernel_that_the_driving_thread_runs_is_of_the_line_at_that_time():
    run = Program().steps(0, 100)
    main = run.thread()
    run.op(0, 100, "EagerExecute")
    number = run.builder.intern("main")
    for lane, start, end in ((number, 0, 40), (number, 60, 90), (number + 1, 90, 100)):
        run.add(run.executor(lane=lane), Kind.KERNEL, start, end, name="MatMul")
    assert main != run.executor(lane=number)
    run.note((None, FORWARD, 5), (None, OTHER, 5))
    # Another thread may run what was asked for earlier.
    assert run.times() == {FORWARD: 40 + 10, OTHER: 30 + 10, "uncredited": 10}


@pytest.mark.parametrize("seed", range(20))
def test_lines_and_categories_share_one_total(seed):
    chance = random.Random(seed)  # noqa: S311 - no secret
    run = Program(unit_ns=7).steps(0, 1000, 2000, 3000)
    at = 0
    while at < 2900:
        start, end = at + chance.randrange(9), at + 10 + chance.randrange(90)
        run.op(start, end, "MatMul", **({"source": STEP} if chance.random() < 0.3 else {}))
        at = end
    for step in range(2):
        for _ in range(20):
            line = chance.choice([FORWARD, OTHER, None])
            run.note((None, line, chance.randrange(50)), step=step)
    facts = Facts(run.trace(framework="tensorflow"))
    found = line_breakdown(facts)
    sums = {c: sum(line.categories.get(c, 0) for line in found.lines) for c in CATEGORIES}
    assert sums == facts.breakdown


def parts(*rows):
    """Parts of (start, end, line, operation)."""
    starts, ends, line, unit = (np.array(column) for column in zip(*rows, strict=True))
    none = np.full(len(starts), NULL, dtype=np.int64)
    return DriverParts(starts, ends, line, unit, none != NULL, none)


def test_the_line_at_a_time():
    timed = parts((0, 10, 5, NULL), (10, 20, 6, NULL), (30, 40, 7, NULL))
    times = np.array([-1, 0, 9, 10, 20, 29, 30, 40])
    assert lines_at(timed, times).tolist() == [NULL, 5, 5, 6, NULL, NULL, 7, NULL]


def test_recorded_parts_are_cut_where_the_line_changes():
    recorded = parts((2, 8, NULL, 3), (8, 12, 9, 4))
    timed = parts((0, 5, 5, NULL), (5, 14, 6, NULL))
    found = with_times(recorded, timed)
    columns = (found.starts, found.ends, found.line, found.unit)
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == [
        (0, 2, 5, NULL),
        (2, 5, 5, 3),
        (5, 8, 6, 3),
        (8, 12, 9, 4),
        (12, 14, 6, NULL),
    ]
    assert with_times(None, timed) is timed
