"""Whether the same rank, or group, is late more often than by chance."""

from __future__ import annotations

from math import comb
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

CHANCE = 0.01
"""How likely it may be that chance makes one of several ranks, or groups, late so often."""

_FEWEST_EVEN = 3  # two steps have one distance


def sign_test(is_late: NDArray[np.bool_]) -> NDArray[np.float64]:
    """How likely each rank is late so often if the late ranks of each step are drawn at random.

    In a step with j late ranks of n, each of them is drawn with a probability of j / n. The number
    of steps follows a Poisson binomial distribution; with one late rank per step, a binomial one.

    Args:
        is_late: Which ranks are late in each step; (ranks, steps).
    """
    shares = is_late.mean(axis=0)
    likely = np.zeros(is_late.shape[1] + 1)
    likely[0] = 1.0
    for share in shares.tolist():
        likely[1:] = likely[1:] * (1 - share) + likely[:-1] * share
        likely[0] *= 1 - share
    at_least = np.cumsum(likely[::-1])[::-1]
    chances: NDArray[np.float64] = np.minimum(at_least[is_late.sum(axis=1)], 1.0)
    return chances


def even_chance(is_late: NDArray[np.bool_]) -> float:
    """How likely steps drawn at random are as far apart as those of a rank; 1 if these differ.

    It is the number of evenly spaced choices of so many steps, divided by that of all choices.

    Args:
        is_late: In which steps the rank is late; (steps,).
    """
    late, steps = np.flatnonzero(is_late), len(is_late)
    if len(late) < _FEWEST_EVEN or len(set(np.diff(late).tolist())) > 1:
        return 1.0
    gaps = range(1, (steps - 1) // (len(late) - 1) + 1)
    even = sum(steps - gap * (len(late) - 1) for gap in gaps)
    return even / comb(steps, len(late))
