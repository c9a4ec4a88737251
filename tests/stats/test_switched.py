"""Two settings that alternate within one process, simulated with known step times."""

import numpy as np
import pytest

from stepwhy.measure.stats import arm_of_block, judge, switched_ratio


def simulated(random, effect, *, blocks=24, steps=10, correlation=0.0, noise=0.03, drift=0.0):
    """Durations, settings and blocks; the noise of neighbouring steps is correlated."""
    count = blocks * steps
    block = np.repeat(np.arange(blocks), steps)
    arm = np.array([arm_of_block(number) for number in range(blocks)])[block]
    shocks = random.normal(0, noise * np.sqrt(1 - correlation**2), count)
    logs = np.zeros(count)
    for n in range(1, count):
        logs[n] = correlation * logs[n - 1] + shocks[n]
    logs += random.exponential(0.03, count) + drift * np.arange(count) / count
    return np.exp(logs + np.log1p(effect) * arm) * 1e7, arm, block


def share_decided(effect, repetitions=200, **options):
    random = np.random.default_rng(1)
    found = [switched_ratio(*simulated(random, effect, **options)) for _ in range(repetitions)]
    return sum(ratio.low > 0 or ratio.high < 0 for ratio in found) / repetitions


def test_blocks_alternate_so_that_a_drift_affects_both():
    arms = [arm_of_block(number) for number in range(8)]
    assert arms == [0, 1, 1, 0, 0, 1, 1, 0]
    places = [[n for n, arm in enumerate(arms) if arm == which] for which in (0, 1)]
    assert sum(places[0]) == sum(places[1])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"correlation": 0.95, "noise": 0.05},
        {"correlation": 0.99, "noise": 0.05},
        {"drift": 0.3},
        {"blocks": 8, "correlation": 0.95, "noise": 0.05},
    ],
)
def test_equal_settings_rarely_differ(options):
    assert share_decided(0.0, **options) <= 0.05


def test_change_of_5_percent_is_found():
    assert share_decided(0.05, noise=0.02) >= 0.95
    assert share_decided(0.05, noise=0.02, drift=0.3) >= 0.95


def test_bursts_in_some_blocks_do_not_hide_a_change():
    random = np.random.default_rng(2)
    durations, arm, block = simulated(random, 0.1)
    durations[np.isin(block, [3, 12, 19])] *= 2
    ratio = switched_ratio(durations, arm, block)
    assert judge(ratio, 0.03) == "slower"
    assert ratio.change == pytest.approx(0.1, abs=0.03)


def test_ratio_by_hand():
    # Logs of the ratios: ln 1.1, ln 1.2, ln 1.1, ln 1.2; mean 0.13882, error 0.02512, t 4.5407.
    durations = [100, 110, 120, 100, 100, 110, 120, 100]
    arm = [0, 1, 1, 0, 0, 1, 1, 0]
    ratio = switched_ratio(durations, arm, range(8), warm=0)
    assert ratio.pairs == 4
    assert ratio.change == pytest.approx(0.14891, abs=1e-5)
    assert ratio.high == pytest.approx(np.expm1(0.138816 + 4.5407 * 0.025118), rel=1e-3)


def test_steps_after_a_switch_are_left_out():
    block = np.repeat(np.arange(8), 3)
    arm = np.array([arm_of_block(n) for n in range(8)])[block]
    durations = np.where(arm, 12.0, 10.0)
    switched = np.flatnonzero(np.diff(arm, prepend=-1))
    durations[switched] = 500.0
    assert switched_ratio(durations, arm, block, warm=1).change == pytest.approx(0.2)


def test_mean_measures_rare_long_steps():
    block = np.repeat(np.arange(16), 10)
    arm = np.array([arm_of_block(n) for n in range(16)])[block]
    durations = np.full(len(block), 10.0)
    durations[9::10] = np.where(arm[9::10], 10.0, 20.0)
    assert switched_ratio(durations, arm, block).change == 0
    assert switched_ratio(durations, arm, block, statistic="mean").change < -0.08


def test_few_pairs_of_blocks_give_no_ratio():
    assert switched_ratio([1, 2, 2, 1, 1, 2], [0, 1, 1, 0, 0, 1], range(6), warm=0) is None
    assert switched_ratio([], [], []) is None


def test_setting_that_never_changes_gives_no_ratio():
    assert switched_ratio([1.0] * 9, [0] * 9, range(9), warm=0) is None


def test_mixed_block_is_refused():
    with pytest.raises(ValueError, match="both settings"):
        switched_ratio([1, 2], [0, 1], [0, 0])
    with pytest.raises(ValueError, match="differ in length"):
        switched_ratio([1, 2], [0, 1], [0])
