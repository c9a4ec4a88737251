"""Work of the same steps on several ranks, by CPU time."""

import numpy as np
import pytest

from stepwhy.analyse.ranks.step_work import StepLog, find_varying
from stepwhy.trace import NULL

STEPS = 12


def log(cpu_ns, wall_ns=10, first=0, stop=STEPS):
    """The steps of a rank; times repeat."""
    return StepLog(np.resize(wall_ns, STEPS), np.resize(cpu_ns, STEPS), first, stop)


def test_ranks_that_take_turns():
    work = find_varying([log([9, 3, 3]), log([3, 9, 3]), log([3, 3, 9])])
    assert (work.steps, work.mean_ns, work.longest_ns, work.imbalance_ns) == (12, 5, 9, 4)
    assert work.imbalance == pytest.approx(4 / 9)
    assert work.longest == pytest.approx([1 / 3] * 3)
    assert work.spread == pytest.approx((9 - 3) / 3)


def test_a_rank_that_is_always_longest_causes_no_imbalance():
    assert find_varying([log([9, 7]), log([5, 3])]).imbalance_ns == 0


def test_a_rank_that_has_more_work_on_average_counts_once():
    work = find_varying([log([9, 3]), log([3, 5])])
    assert (work.longest_ns, work.imbalance_ns, work.lead_ns) == (7, 1, 1)


def test_only_steps_that_are_steady_and_measured_on_all_ranks_count():
    some = np.where(np.arange(STEPS) == 5, NULL, 7)
    assert find_varying([log(some, first=1), log([7])]).steps == 10


@pytest.mark.parametrize(
    "logs",
    [
        [],
        [log([7])],
        [log([7]), None],
        [log([7]), log([7], stop=9)],  # too few
        [log([7]), log([7, NULL])],
        [log([7], wall_ns=[10, 20]), log([7], wall_ns=[20, 10])],  # not in the same order
    ],
)
def test_what_cannot_be_compared(logs):
    assert find_varying(logs) is None


def varied(shift=0, jitter=0.2):
    """The steps of a rank that waits for cores: their lengths vary, and their ends by a fifth."""
    lengths = np.array([10, 30, 14, 26, 8, 20, 34, 12, 24, 9, 28, 16])
    jitters = 1 + jitter * np.resize([1, -1, 0], STEPS)
    return np.roll(lengths, shift) * jitters * 10


def test_steps_that_end_at_different_times_match_by_their_lengths():
    work = find_varying([log([9, 3], wall_ns=varied()), log([3, 9], wall_ns=varied(jitter=-0.1))])
    assert work.imbalance_ns == 3


@pytest.mark.parametrize("shift", [1, -1, 4])
def test_steps_that_match_no_better_than_neighbouring_ones_are_not_compared(shift):
    logs = [log([9, 3], wall_ns=varied()), log([3, 9], wall_ns=varied(shift))]
    assert find_varying(logs) is None
