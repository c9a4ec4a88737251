"""Bootstrap interval for the step time of a program, from several runs."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.measure.stats.student import student_quantile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_RESAMPLES = 2000
# Neighbouring steps are correlated (garbage collection, bursts of other programs), so blocks of
# steps are drawn.
_BLOCK_STEPS = 10
_MOST_STEPS = 1000  # per run; more do not make its median noticeably more precise


class Interval(msgspec.Struct, frozen=True):
    """An estimate with its confidence interval.

    Args:
        estimate: The estimate.
        low: Lower end.
        high: Upper end.
        level: Confidence level, such as 0.95.
    """

    estimate: float
    low: float
    high: float
    level: float


def median_interval(runs: Sequence[NDArray[np.int64]], *, level: float = 0.95) -> Interval:
    """Median over runs of the median step, with a bootstrap interval.

    Runs are drawn with replacement, and blocks of steps within each drawn run. With few runs, a
    percentile interval is too narrow, so it is expanded to the coverage of Student's t. With a
    single run, the interval does not include the variation between runs.

    Args:
        runs: Step durations of each run, in ns.
        level: Confidence level.

    Raises:
        ValueError: If there is no run, or a run is empty.

    Source: Hesterberg, "What Teachers Should Know About the Bootstrap", The American Statistician
    69 (2015), section 3.2 (expanded percentile interval); Davison and Hinkley, "Bootstrap Methods
    and Their Application" (1997), sections 3.8 (hierarchical data) and 8.2.3 (blocks).
    """
    if not runs or not all(len(run) for run in runs):
        raise ValueError("every run needs at least one step")
    random = np.random.default_rng(0)
    medians = np.stack([_step_medians(run, random) for run in runs])
    count = len(runs)
    chosen = random.integers(0, count, (_RESAMPLES, count))
    within = random.integers(0, medians.shape[1], (_RESAMPLES, count))
    drawn = np.median(medians[chosen, within], axis=1)
    tail = _expanded_tail(level, count)
    low, high = np.quantile(drawn, [tail, 1 - tail])
    estimate = float(np.median([np.median(run) for run in runs]))
    return Interval(estimate, min(float(low), estimate), max(float(high), estimate), level)


def _step_medians(
    run: NDArray[np.int64], random: np.random.Generator, resamples: int = 200
) -> NDArray[np.float64]:
    """Medians of resampled steps of one run; (resamples,)."""
    steps = run[-_MOST_STEPS:]
    block = min(_BLOCK_STEPS, max(len(steps) // 4, 1))
    starts = random.integers(0, len(steps) - block + 1, (resamples, -(-len(steps) // block)))
    rows = (starts[:, :, None] + np.arange(block)).reshape(resamples, -1)[:, : len(steps)]
    medians: NDArray[np.float64] = np.median(steps[rows], axis=1)
    return medians


def _expanded_tail(level: float, count: int) -> float:
    """Share of resamples to leave out at each end."""
    if count < 2:
        return (1 - level) / 2
    quantile = student_quantile(count - 1, (1 + level) / 2)
    return NormalDist().cdf(-math.sqrt(count / (count - 1)) * quantile)
