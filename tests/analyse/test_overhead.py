"""What watching costs: full steps against the light ones between them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwhy.analyse.steps.overhead import added_share, median_interval, observer_cost

FEW = settings(max_examples=60, deadline=None, derandomize=True)
US = 1_000
PERIOD, LIGHT = 32, 8


def run(blocks, *, light_ns=1_000_000, cost_ns=3 * US, noise_ns=0, drift_ns=0, seed=0):
    """Durations, light flags and rows of a run with so many light blocks and full steps around."""
    count = PERIOD * (blocks + 1)
    rows = np.arange(count)
    light = ((rows % PERIOD < LIGHT) & (rows >= PERIOD)).astype(np.int8)
    noise = np.random.default_rng(seed).gamma(2.0, max(noise_ns, 1e-9) / 2, count)
    durations = light_ns + cost_ns * (light == 0) + drift_ns * rows + noise
    return durations.round().astype(np.int64), light, rows


def test_the_cost_is_what_full_steps_take_longer():
    cost = observer_cost(*run(6))
    assert (cost.cost_ns, cost.interval_ns, cost.missing_steps) == (3 * US, (3 * US, 3 * US), None)


def test_a_drift_of_the_run_is_no_cost():
    cost = observer_cost(*run(20, drift_ns=50))
    assert cost.cost_ns == pytest.approx(3 * US, abs=20)


def test_of_a_long_light_block_the_steps_beside_observed_ones_are_compared():
    light = np.tile(np.repeat([0, 1], [24, 300]), 8)
    rows = np.arange(len(light))
    durations = 1_000_000 + 3 * US * (light == 0)
    durations[24 + 8 : 24 + 300 - 8] += 50 * US  # a drift in the middle of the first block
    cost = observer_cost(durations, light.astype(np.int8), rows)
    assert (cost.cost_ns, cost.interval_ns) == (3 * US, (3 * US, 3 * US))


def test_a_rare_long_step_is_no_cost():
    durations, light, rows = run(10)
    durations[[40, 100, 160]] += 10**9
    assert observer_cost(durations, light, rows).cost_ns == 3 * US


@pytest.mark.parametrize(("blocks", "missing"), [(5, 1), (2, 4), (1, 5)])
def test_too_few_blocks_say_how_many_steps_are_missing(blocks, missing):
    cost = observer_cost(*run(blocks))
    assert (cost.cost_ns, cost.interval_ns) == (None, None)
    assert cost.missing_steps == missing * PERIOD


def test_a_short_run_without_light_steps_says_so_and_a_long_one_has_none():
    durations, light, rows = run(1)
    assert observer_cost(durations[:20], light[:20], rows[:20]).missing_steps == 7 * PERIOD - 20
    durations, light, rows = run(10)
    assert observer_cost(durations, np.zeros_like(light), rows) is None


def test_noise_that_hides_the_cost_is_told_with_its_interval():
    cost = observer_cost(*run(8, noise_ns=500 * US))
    low, high = cost.interval_ns
    assert cost.cost_ns is None
    assert high - low > 20 * US
    assert cost.missing_steps % PERIOD == 0
    assert cost.missing_steps > 0


def test_an_interval_without_zero_does_tell_however_wide():
    cost = observer_cost(*run(60, cost_ns=200 * US, noise_ns=300 * US))
    low, high = cost.interval_ns
    assert (high - low) / 2 > 10 * US
    assert 0 < low <= cost.cost_ns <= high


def test_so_many_more_steps_do_tell():
    first = observer_cost(*run(20, noise_ns=100 * US))
    assert first.missing_steps
    more = observer_cost(*run(20 + 3 * first.missing_steps // PERIOD, noise_ns=100 * US))
    assert more.missing_steps is None
    assert more.interval_ns[0] <= more.cost_ns <= more.interval_ns[1]


def test_steps_that_were_light_in_part_or_not_consecutive_are_no_neighbours():
    durations, light, rows = run(6)
    light[2 * PERIOD - 1] = 2
    assert observer_cost(durations, light, rows).missing_steps == PERIOD
    durations, light, rows = run(6)
    rows = rows + (np.arange(len(rows)) >= 2 * PERIOD)  # a profiled step lies between
    assert observer_cost(durations, light, rows).missing_steps == PERIOD


@FEW
@given(st.integers(6, 30), st.integers(0, 50), st.integers(0, 2**31))
def test_the_interval_holds_the_estimate_and_the_order_of_noise_does_not_matter(
    blocks, cost_us, seed
):
    cost = observer_cost(*run(blocks, cost_ns=cost_us * US, noise_ns=10 * US, seed=seed))
    low, high = cost.interval_ns
    assert low <= high
    if cost.cost_ns is not None:
        assert low <= cost.cost_ns <= high
        # Six blocks of noise with a spread of 7 us: the estimate cannot be far off.
        assert abs(cost.cost_ns - cost_us * US) < 15 * US


@FEW
@given(
    st.lists(st.tuples(st.integers(0, 10**12), st.integers(0, 2), st.integers(1, 3)), min_size=1)
)
def test_any_log_has_an_answer(steps):
    durations, light, gaps = (np.asarray(column) for column in zip(*steps, strict=True))
    cost = observer_cost(durations, light.astype(np.int8), np.cumsum(gaps))
    assert cost is None or cost.missing_steps is None or cost.missing_steps > 0


def test_the_share_of_a_run_includes_traced_steps_where_the_step_time_changes():
    durations = np.repeat([1_000_000, 4_000_000], [500, 500])
    profiled = np.zeros(1000, np.int8)
    profiled[[100, 101, 800]] = 1
    light = np.ones(1000, np.int8)
    light[200:300] = 0
    light[profiled == 1] = 0
    rest_ns = int(durations.sum())
    durations[profiled == 1] += 10_000_000
    durations[200:300] += 5 * US
    share = added_share(durations, profiled, light, 5 * US)
    assert share == pytest.approx((3 * 10_000_000 + 100 * 5 * US) / rest_ns, abs=1e-4)


def test_without_steps_that_ran_unprofiled_the_share_is_unknown():
    one = np.ones(4, np.int8)
    assert added_share(np.ones(4, np.int64), one, one * 0, 5) is None


def test_the_interval_of_a_median_is_made_of_two_of_the_values():
    ranks = {count: median_interval(range(1, count + 1)) for count in (6, 8, 9, 20, 100)}
    # As in tables of the sign test at 5 %.
    assert ranks == {6: (1, 6), 8: (1, 8), 9: (2, 8), 20: (6, 15), 100: (40, 61)}


def test_the_interval_holds_the_truth_as_often_as_it_says():
    random = np.random.default_rng(0)
    for count in (6, 8, 11, 40):
        drawn = random.exponential(1.0, (1000, count))
        held = [low <= np.log(2) <= high for low, high in map(median_interval, drawn)]
        assert np.mean(held) > 0.94
