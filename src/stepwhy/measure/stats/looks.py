"""Repeated looks at a growing experiment, with one error rate over all of them."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_NORMAL = NormalDist()
# Grid of the sum at a look, whose standard deviation at the last one is 1.
_REACH, _WIDTH = 8.0, 0.01
_GRID = np.arange(-_REACH, _REACH + _WIDTH / 2, _WIDTH)
# Smaller error rates are beyond the precision of the integration: such a look decides nothing.
_LEAST = 1e-9


def look_level(units: Sequence[float], spent: Sequence[float], level: float = 0.98) -> float:
    """Confidence level to use at the latest of several looks.

    All intervals together, each at its own level, cover the truth at least with `level`. Early
    looks get little of the error rate, so that the last one is hardly wider than without them.

    Args:
        units: Number of pairs at each look so far, ascending.
        spent: Share of the budget that was used up at each look, ascending; 1 at the last look of
            the experiment. It must not depend on the measured difference.
        level: Confidence level over all looks.

    Raises:
        ValueError: If the lists are empty, differ in length, or do not ascend.

    Source: Lan and DeMets, "Discrete sequential boundaries for clinical trials", Biometrika 70
    (1983); the spending function is that of O'Brien and Fleming. Levels instead of boundaries are
    used with Student's t: Jennison and Turnbull, "Group Sequential Methods" (2000), section 4.4.
    """
    if not units or len(units) != len(spent):
        raise ValueError("each look needs its number of units and its share of the budget")
    if sorted(set(units)) != list(units) or sorted(spent) != list(spent):
        raise ValueError("the looks are not in ascending order")
    return _levels(tuple(units), tuple(min(max(s, 0.0), 1.0) for s in spent), level)[-1]


@lru_cache(maxsize=64)
def _levels(units: tuple[float, ...], spent: tuple[float, ...], level: float) -> tuple[float, ...]:
    """Level of each look: integrate the random walk that stayed within the earlier boundaries.

    Source: Armitage, McPherson and Rowe, "Repeated significance tests on accumulating data",
    Journal of the Royal Statistical Society A 132 (1969).
    """
    error = 1 - level
    density, before, used, levels = None, 0.0, 0.0, []
    for count, share in zip(units, spent, strict=True):
        at = count / units[-1]
        density = _advance(density, at - before)
        goal = max(_spending(share, error) - used, 0.0)
        boundary = _boundary(density, goal)
        density = np.where(np.abs(_GRID) < boundary, density, 0.0)
        used, before = used + goal, at
        levels.append(1 - max(2 * _NORMAL.cdf(-boundary / math.sqrt(at)), _LEAST))
    return tuple(levels)


def _spending(share: float, error: float) -> float:
    """Error rate that may be spent up to a share of the budget."""
    if share <= 0:
        return 0.0
    each_side = 2 * _NORMAL.cdf(_NORMAL.inv_cdf(error / 4) / math.sqrt(share))
    return 2 * each_side


def _advance(density: NDArray[np.float64] | None, step: float) -> NDArray[np.float64]:
    """Density of the sum after a further variance of `step`."""
    kernel = np.exp(-(_GRID**2) / (2 * step)) / math.sqrt(2 * math.pi * step)
    if density is None:
        return kernel
    return np.convolve(density, kernel, mode="same") * _WIDTH


def _boundary(density: NDArray[np.float64], goal: float) -> float:
    """Distance from 0 that the sum exceeds, on either side, with the probability `goal`."""
    half = len(_GRID) // 2
    # The density is symmetric.
    beyond = 2 * np.cumsum(density[: half + 1]) * _WIDTH
    if goal < _LEAST:
        return _REACH
    return float(-np.interp(goal, beyond, _GRID[: half + 1] + _WIDTH / 2))
