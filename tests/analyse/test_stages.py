"""The stages of a pipeline, and how long they wait for each other."""

import numpy as np

from stepwhy.analyse.ranks.rank_times import Rank
from stepwhy.analyse.ranks.stages import find_stages
from stepwhy.result import CATEGORIES
from stepwhy.trace import NULL


def rank(stage, passes_ns, passes=4.0, number=None):
    breakdown = dict.fromkeys(CATEGORIES, 0)
    breakdown |= {"compute": passes_ns, "communication": 100 - passes_ns}
    return Rank(
        stage if number is None else number,
        stage,
        breakdown,
        np.array([passes_ns]),
        passes=passes,
        passes_ns=passes_ns,
    )


def test_time_to_fill_and_time_for_the_longest_stage():
    stages = find_stages([rank(0, 40), rank(1, 40), rank(2, 80)])
    assert stages.pass_ns == (10.0, 10.0, 20.0)
    assert (stages.longest, stages.idle_ns, stages.wall_ns) == (2, 47, 100)
    assert stages.fill_ns == round(2 * 40 / 3)
    assert stages.fill_share == 2 / 6
    assert stages.imbalance_ns == round(3 * (20 - 40 / 3))
    assert [stages.waits_ns(stage) for stage in range(3)] == [30, 30, 0]


def test_a_stage_whose_record_ends_early_waits_for_the_longest():
    early = rank(1, 40)
    early.breakdown["communication"] = 20  # its record of the step ends after 60 of 100
    stages = find_stages([rank(0, 40), early])
    assert (stages.idle_ns, stages.wall_ns) == (60, 100)


def test_ranks_of_a_stage_count_with_their_mean():
    stages = find_stages([rank(0, 40), rank(0, 60, number=1), rank(1, 40, number=2)])
    assert stages.pass_ns == (12.5, 10.0)


def test_a_pipeline_needs_all_stages_and_their_passes():
    first, last = rank(0, 40), rank(1, 40)
    assert find_stages([]) is None
    assert find_stages([first]) is None
    assert find_stages([rank(NULL, 40), rank(NULL, 40)]) is None
    assert find_stages([first, rank(2, 40)]) is None  # stage 1 is not there
    assert find_stages([first, rank(1, 40, passes=None)]) is None
    assert find_stages([first, rank(1, 40, passes=2.0)]) is None
    assert find_stages([first, last]) is not None
