"""One replayed step for the page: its device work, and what a fix changed in it."""

import numpy as np
import pytest

from stepwhy.predict.replayed_step import most_usual, replayed_step
from stepwhy.predict.timeline import replay_steps
from stepwhy.result import parse_edit
from tests.predict.test_replay import EXCHANGING, LOADING, WAITING, facts_of

UNIT = 10_000


def step_of(drawing, edit):
    return replayed_step(facts_of(drawing), "a-fix", [parse_edit(edit)])


def columns(step):
    """Start and end of each slice, in columns of the drawing."""
    return [(int(a) / UNIT, int(b) / UNIT) for a, b in zip(step.start_ns, step.end_ns, strict=True)]


def test_the_step_in_the_middle_is_replayed_at_its_recorded_start():
    step = step_of(WAITING, "kernels=2x")
    assert (step.fix, step.about.step) == ("a-fix", 2)
    assert (step.about.before_ns, step.about.after_ns) == (10 * UNIT, 6.5 * UNIT)
    assert columns(step) == [(12, 15.5)]


def test_shortened_work_is_listed():
    (work,) = step_of(WAITING, "kernels=2x").about.work
    assert (work.name, work.count, work.removed, work.saved_ns) == ("gemm", 1, 0, 3.5 * UNIT)


def test_removed_work_is_listed_and_not_drawn():
    step = step_of(EXCHANGING, "communication=overlapped")
    (work,) = step.about.work
    assert (work.name, work.count, work.removed, work.saved_ns) == ("rs", 1, 1, 4 * UNIT)
    assert columns(step) == [(10, 16)]
    assert step.about.floor_ns == 4 * UNIT


def test_host_work_and_waits_that_disappear_are_counted():
    step = step_of(LOADING, "input=free")
    assert (step.about.work, step.about.host_saved_ns) == ((), 4 * UNIT)
    assert columns(step) == [(11, 15)]
    assert step_of(WAITING, "syncs=gone").about.waits == 1


@pytest.mark.parametrize(
    ("durations", "chosen"),
    [
        ([10, 10, 10, 10, 10], 2),
        # The one in the middle is unusual.
        ([10, 10, 40, 10], 1),
        ([10], 0),
        # None is near the median.
        ([10, 40], 1),
        ([100, 99, 300, 300, 300, 101], 3),
    ],
)
def test_a_usual_step_near_the_middle_is_replayed(durations, chosen):
    assert most_usual(np.array(durations)) == chosen


def test_replayed_steps_begin_where_the_recorded_ones_do():
    facts = facts_of(WAITING)
    steps = replay_steps(facts, [parse_edit("kernels=gone")])
    assert steps.begin_ns.tolist() == facts.steps.starts.tolist()
    assert steps.after_ns.tolist() == [4 * UNIT] * 3
    assert np.array_equal(steps.start_ns, steps.end_ns)
