"""Comparison of two programs whose runs did not alternate, such as one run each."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.measure.stats.moderated import BLOCK_STEPS, BLOCKS, expected_spread
from stepwhy.measure.stats.planning import USUAL_SPREAD
from stepwhy.measure.stats.student import student_quantile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_FEWEST_STEPS = 3
# Changes up to so many standard deviations between runs are usual: Student's quantile for 98 % of
# runs whose spread is about as well known as from eight of them.
_CHANCE = 3.0


class SingleRatio(msgspec.Struct, frozen=True):
    """How much longer a step takes in the second of two runs, as a fraction.

    Args:
        change: Estimate; 0.1 is 10 % longer.
        low: Lower end of its interval, from the variation between the steps of each run and the
            usual change between runs.
        high: Upper end.
        chance: Largest change that is usual between two runs of one program.
    """

    change: float
    low: float
    high: float
    chance: float


def single_ratio(
    first: NDArray[np.int64], second: NDArray[np.int64], *, level: float = 0.98
) -> SingleRatio | None:
    """Compare the median steps of two runs.

    Args:
        first: Step durations of the run of the first program, in any unit, above 0.
        second: Those of the second program.
        level: Confidence level.

    Returns:
        The ratio; None if a run has fewer than three steps.
    """
    if min(len(first), len(second)) < _FEWEST_STEPS:
        return None
    (a, a_variance, a_freedom), (b, b_variance, b_freedom) = map(_log_median, (first, second))
    reach = student_quantile(min(a_freedom, b_freedom), (1 + level) / 2)
    reach *= math.sqrt(a_variance + b_variance)
    chance = usual_change([first, second])
    reach = math.hypot(reach, chance)
    change, low, high, largest = (
        math.expm1(min(log, 50.0)) for log in (b - a, b - a - reach, b - a + reach, chance)
    )
    return SingleRatio(change, low, high, largest)


def usual_change(runs: Sequence[NDArray[np.int64]]) -> float:
    """Largest change of a machine between two runs that is usual, as a logarithm.

    Args:
        runs: Step durations of each run of either program, in any unit, above 0.
    """
    return _CHANCE * max(expected_spread(runs), USUAL_SPREAD)


def _log_median(steps: NDArray[np.int64]) -> tuple[float, float, int]:
    """Log of the median step, the variance of that, and its degrees of freedom.

    Blocks of neighbouring steps are the samples, because neighbours are correlated.
    """
    positive = np.maximum(steps, 1)
    blocks = BLOCKS if len(steps) >= BLOCKS * BLOCK_STEPS else max(len(steps) // BLOCK_STEPS, 0)
    parts = np.array_split(positive, blocks if blocks >= _FEWEST_STEPS else len(steps))
    logs = np.log([np.median(part) for part in parts])
    variance = float(logs.var(ddof=1)) / len(logs)
    return math.log(float(np.median(positive))), variance, len(logs) - 1
