"""Few values with an expected spread, and what a number of repeats can find."""

import math
from itertools import pairwise

import numpy as np
import pytest

from stepwhy.measure.stats import (
    detectable_change,
    expected_spread,
    moderated_mean,
    paired_difference,
    paired_ratio,
    pairs_needed,
)
from stepwhy.measure.stats.moderated import BETWEEN_RUNS, EXPECTED_FREEDOM


def test_moderated_mean_by_hand():
    mean = moderated_mean([1.0, 2.0, 3.0], expected=2.0)
    variance = (2.0 + EXPECTED_FREEDOM * 4.0) / (2 + EXPECTED_FREEDOM)
    assert mean.value == 2.0
    assert mean.freedom == 2 + EXPECTED_FREEDOM
    assert mean.error == pytest.approx(math.sqrt(variance / 3))


def test_single_value_has_a_spread_only_if_one_is_expected():
    assert moderated_mean([1.0]) is None
    assert moderated_mean([1.0], expected=0.1).error == pytest.approx(0.1)
    with pytest.raises(ValueError, match="no values"):
        moderated_mean([])


def test_expected_spread_narrows_the_interval_of_two_pairs():
    plain = paired_ratio([10, 10.1], [12, 12.3])
    pooled = paired_ratio([10, 10.1], [12, 12.3], expected=0.015)
    assert pooled.change == plain.change
    assert pooled.detectable < plain.detectable / 2
    wide = paired_ratio([10, 10.1], [12, 12.3], expected=0.3)
    assert wide.high > pooled.high


def test_difference_uses_the_expected_spread():
    plain = paired_difference([1.0, 2.0], [3.0, 4.5])
    pooled = paired_difference([1.0, 2.0], [3.0, 4.5], expected=0.3)
    assert pooled.high - pooled.low < plain.high - plain.low


def test_steady_runs_are_expected_to_differ_little():
    steady = [np.full(100, 10_000_000)] * 2
    assert expected_spread(steady) == pytest.approx(math.sqrt(2) * BETWEEN_RUNS)


def test_runs_that_drift_are_expected_to_differ():
    drifting = [np.linspace(10e6, 12e6, 200).astype(np.int64)] * 2
    assert expected_spread(drifting) > 0.05


@pytest.mark.parametrize("steps", [0, 1, 7])
def test_short_runs_show_no_drift(steps):
    assert expected_spread([np.arange(steps) + 1]) == pytest.approx(math.sqrt(2) * BETWEEN_RUNS)


@pytest.mark.parametrize(("noise", "drift"), [(0.01, 0.02), (0.03, 0.03), (0.1, 0.1)])
def test_error_rate_holds_where_runs_differ_as_they_drift(noise, drift):
    random = np.random.default_rng(3)
    wrong = 0
    for _ in range(400):
        runs = [
            10e6 * np.exp(random.normal(0, noise) + np.repeat(random.normal(0, drift, 8), 10))
            for _ in range(6)
        ]
        medians = [float(np.median(run)) for run in runs]
        ratio = paired_ratio(medians[::2], medians[1::2], expected=expected_spread(runs))
        wrong += ratio.low > 0 or ratio.high < 0
    assert wrong / 400 <= 0.05


def test_more_pairs_find_smaller_changes():
    found = [detectable_change(pairs) for pairs in range(2, 21)]
    # Those that are left out from 8, 12, 16, ... on cost about as much as one pair gains.
    assert all(more < 1.03 * fewer for fewer, more in pairwise(found))
    assert found[::4] == sorted(found[::4], reverse=True)
    assert detectable_change(1) == math.inf


@pytest.mark.parametrize("pairs", [5, 6, 8, 12, 16])
def test_detectable_change_is_found_in_80_percent(pairs):
    random = np.random.default_rng(4)
    slower = 1 + detectable_change(pairs)
    found = 0
    for _ in range(400):
        second = slower * np.exp(random.normal(0, 0.05, pairs))
        found += paired_ratio(np.ones(pairs), second, expected=0.05).low > 0
    assert found / 400 == pytest.approx(0.8, abs=0.07)


def test_outlying_pairs_are_left_out_of_the_ratio():
    second = [1.1, 1.11, 1.09, 1.1, 1.1, 1.1, 1.1, 3.0]
    assert paired_ratio([1.0] * 8, second).change == pytest.approx(0.1, abs=0.01)


def test_difference_is_that_of_the_means():
    first, second = [10.0] * 8, [10.1] * 6 + [21.0, 21.1]
    interval = paired_difference(first, second)
    assert interval.estimate == pytest.approx(np.mean(second) - np.mean(first))
    assert interval.low < 0 < interval.high


def test_planned_number_of_pairs_is_the_smallest_that_suffices():
    needed = pairs_needed(0.05, 0.04)
    assert detectable_change(needed, 0.04) <= 0.05 < detectable_change(needed - 1, 0.04)
    assert pairs_needed(-0.05, 0.04) >= needed - 1
    assert pairs_needed(0.001, 0.3) is None
