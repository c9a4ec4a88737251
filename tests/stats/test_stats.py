"""Intervals and verdicts, checked with simulated programs of known step time."""

from statistics import NormalDist

import numpy as np
import pytest

from stepwhy.measure.stats import judge, median_interval, paired_difference, paired_ratio
from stepwhy.measure.stats.student import student_quantile

BASE_NS = 10_000_000


def simulated_run(random, scale=1.0, run_noise=0.02, steps=100):
    """Steps of one run: a random level, skewed noise, and occasional long steps."""
    level = BASE_NS * scale * np.exp(random.normal(0, run_noise))
    durations = level * (1 + random.exponential(0.03, steps))
    durations[random.random(steps) < 0.02] *= 3
    return durations.astype(np.int64)


def compared(random, scale, pairs=5, run_noise=0.02):
    first = [float(np.median(simulated_run(random, 1.0, run_noise))) for _ in range(pairs)]
    second = [float(np.median(simulated_run(random, scale, run_noise))) for _ in range(pairs)]
    return judge(paired_ratio(first, second), margin=0.03)


def test_identical_programs_differ_in_about_one_of_a_hundred_comparisons():
    random = np.random.default_rng(1)
    verdicts = [compared(random, 1.0) for _ in range(1000)]
    assert sum(v in ("faster", "slower") for v in verdicts) <= 25


def test_slowdown_of_10_percent_is_found():
    random = np.random.default_rng(2)
    verdicts = [compared(random, 1.1, run_noise=0.01) for _ in range(300)]
    assert verdicts.count("slower") >= 0.95 * 300
    assert "faster" not in verdicts


def test_quiet_identical_programs_are_the_same():
    random = np.random.default_rng(3)
    verdicts = [compared(random, 1.0, pairs=8, run_noise=0.004) for _ in range(200)]
    assert verdicts.count("same") >= 190


def test_noise_makes_it_impossible_to_tell():
    random = np.random.default_rng(4)
    verdicts = [compared(random, 1.1, pairs=3, run_noise=0.2) for _ in range(200)]
    assert verdicts.count("cannot tell") >= 180


def test_the_interval_of_the_median_covers_the_truth():
    random = np.random.default_rng(5)
    truth = BASE_NS * (1 + 0.03 * np.log(2))
    covered = 0
    for _ in range(300):
        interval = median_interval([simulated_run(random) for _ in range(5)])
        covered += interval.low <= truth * 1.002 and truth * 0.998 <= interval.high
    assert covered / 300 >= 0.90


def test_more_runs_narrow_the_interval():
    random = np.random.default_rng(6)
    few = median_interval([simulated_run(random) for _ in range(4)])
    many = median_interval([simulated_run(random) for _ in range(40)])
    assert (many.high - many.low) < 0.6 * (few.high - few.low)


def test_interval_of_a_single_step():
    interval = median_interval([np.array([7])])
    assert (interval.low, interval.estimate, interval.high) == (7, 7, 7)


@pytest.mark.parametrize("runs", [[], [np.array([], dtype=np.int64)]])
def test_no_steps_have_no_median(runs):
    with pytest.raises(ValueError, match="at least one step"):
        median_interval(runs)


def test_drift_affects_both_runs_of_a_pair():
    drift = [1.0, 1.3, 1.7, 2.2]
    ratio = paired_ratio([10 * d for d in drift], [11 * d for d in drift])
    assert ratio is not None
    assert ratio.change == pytest.approx(0.1)
    assert ratio.high - ratio.low < 1e-9


def test_one_pair_gives_no_verdict():
    assert paired_ratio([1.0], [2.0]) is None
    assert judge(None, 0.03) == "cannot tell"
    assert paired_difference([1.0], [2.0]) is None


def test_unpaired_runs_are_refused():
    with pytest.raises(ValueError, match="cannot be paired"):
        paired_ratio([1.0, 2.0], [1.0])


def test_ratio_by_hand():
    # logs: ln 1.1 and ln 1.2; mean 0.13882, standard error 0.04350, t(0.995, 1) = 63.657.
    ratio = paired_ratio([1.0, 1.0], [1.1, 1.2], level=0.99)
    assert ratio is not None
    assert ratio.change == pytest.approx(0.14891, abs=1e-5)
    assert ratio.high == pytest.approx(np.expm1(0.138816 + 63.6567 * 0.0435057), rel=1e-3)


def test_small_certain_difference_is_the_same():
    ratio = paired_ratio([1.0, 1.0, 1.0], [1.01, 1.0101, 1.0099])
    assert ratio is not None
    assert ratio.low > 0
    assert judge(ratio, margin=0.03) == "same"
    assert judge(ratio, margin=0.001) == "slower"


def test_difference_by_hand():
    interval = paired_difference([1.0, 2.0, 3.0], [2.0, 4.0, 6.0], level=0.95)
    assert interval is not None
    # differences 1, 2, 3: mean 2, standard error 1/sqrt(3), t(0.975, 2) = 4.3027.
    assert interval.estimate == 2
    assert interval.high == pytest.approx(2 + 4.30265 / 3**0.5, rel=1e-4)


@pytest.mark.parametrize(
    ("freedom", "probability", "quantile"),
    [
        (1, 0.975, 12.7062),
        (2, 0.95, 2.91999),
        (3, 0.995, 5.84091),
        (4, 0.8, 0.940965),
        (5, 0.005, -4.03214),
        (9, 0.975, 2.26216),
        (30, 0.99, 2.45726),
        (120, 0.975, 1.97993),
    ],
)
def test_students_quantiles_match_published_tables(freedom, probability, quantile):
    """NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2, with more digits."""
    assert student_quantile(freedom, probability) == pytest.approx(quantile, rel=1e-5)


def test_students_quantile_approaches_the_normal_one():
    assert student_quantile(100_000, 0.975) == pytest.approx(NormalDist().inv_cdf(0.975), rel=1e-4)


@pytest.mark.parametrize(("freedom", "probability"), [(0, 0.5), (3, 0.0), (3, 1.0)])
def test_students_quantile_refuses_invalid_arguments(freedom, probability):
    with pytest.raises(ValueError, match="no quantile"):
        student_quantile(freedom, probability)
