"""Error rate over repeated looks."""

from statistics import NormalDist

import numpy as np
import pytest

from stepwhy.measure.stats import look_level, paired_ratio


def levels(looks, level, shares=None):
    shares = shares or [n / looks for n in range(1, looks + 1)]
    return [look_level(range(1, n + 1), shares[:n], level) for n in range(1, looks + 1)]


def test_boundaries_match_published_ones():
    """Reboussin et al., "Computations for group sequential boundaries using the Lan-DeMets
    spending function method", Controlled Clinical Trials 21 (2000): five equal looks at 5 %."""
    boundaries = [NormalDist().inv_cdf((1 + level) / 2) for level in levels(5, 0.95)]
    assert boundaries == pytest.approx([4.8769, 3.3569, 2.6803, 2.2898, 2.0310], abs=0.002)


def test_a_single_look_has_the_whole_error_rate():
    assert look_level([3], [1.0], 0.98) == pytest.approx(0.98, abs=1e-4)


def test_early_looks_get_less_than_the_last_one():
    found = levels(8, 0.98)
    assert found == sorted(found, reverse=True)
    assert 0.97 < found[-1] < 0.985


def test_early_end_uses_what_is_left():
    assert look_level([2, 4], [0.3, 1.0]) < look_level([2, 4], [0.3, 0.6])


@pytest.mark.parametrize("looks", [3, 10])
def test_error_rate_holds_over_all_looks(looks):
    random = np.random.default_rng(0)
    spent = [n / looks for n in range(2, looks + 1)]
    used = [look_level(range(2, n + 1), spent[: n - 1], 0.98) for n in range(2, looks + 1)]
    wrong = 0
    for _ in range(600):
        logs = random.normal(0, 0.05, looks)
        ratios = [
            paired_ratio([1.0] * n, list(np.exp(logs[:n])), level=level)
            for n, level in zip(range(2, looks + 1), used, strict=True)
        ]
        wrong += any(ratio.low > 0 or ratio.high < 0 for ratio in ratios)
    assert wrong / 600 <= 0.05


@pytest.mark.parametrize(
    ("units", "spent"), [([], []), ([1, 2], [1.0]), ([2, 1], [0.5, 1.0]), ([1, 2], [0.6, 0.5])]
)
def test_looks_in_disorder_are_refused(units, spent):
    with pytest.raises(ValueError, match=r"each look|ascending"):
        look_level(units, spent)
