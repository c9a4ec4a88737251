"""Mean of a few noisy values, whose spread is partly known from other measurements."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import msgspec
import numpy as np

from stepwhy.measure.stats.student import student_quantile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

# Standard deviation of a normal distribution, in median absolute deviations.
_NORMAL_DEVIATION = 1.4826
# Probability of finding a difference of the detectable size.
_POWER = 0.8
BLOCKS = 8
"""Blocks of steps that show how much a run drifts."""
BLOCK_STEPS = 4
"""Fewest steps of a block; fewer measure single steps, not drift."""
# Spread of the step time between runs of one program, beyond what the drift within runs shows, as
# a standard deviation of logarithms: addresses, hash seeds and clocks differ from process to
# process. Recorded runs on a quiet machine spread by 0.5 to 3 %. See Mytkowicz et al., "Producing
# Wrong Data Without Doing Anything Obviously Wrong!" (ASPLOS 2009).
BETWEEN_RUNS = 0.02
# Weight of the expected spread, in degrees of freedom. Equal programs then differ in 2 % of
# comparisons, and in at most 6 % if their runs spread by 10 % without any drift within them; with a
# weight of 2, that would be 14 %.
EXPECTED_FREEDOM = 1


class Mean(msgspec.Struct, frozen=True):
    """A mean with the precision that is known of it.

    Args:
        value: The mean.
        error: Its standard error.
        freedom: Degrees of freedom of the standard error.
    """

    value: float
    error: float
    freedom: int

    def reach(self, level: float) -> float:
        """Half width of the two-sided interval at a confidence level."""
        return student_quantile(self.freedom, (1 + level) / 2) * self.error

    def detectable(self, level: float) -> float:
        """Smallest difference from zero that is found in 80 % of cases."""
        return self.reach(level) + student_quantile(self.freedom, _POWER) * self.error


def pairs_left_out(count: int) -> int:
    """Number of pairs of runs to leave out at each end of their range.

    Other programs disturb single runs. But each pair that is left out costs precision: with this
    number, further pairs never make the interval noticeably wider.

    Args:
        count: Number of pairs.
    """
    return max(count // 4 - 1, 0)


def moderated_mean(
    values: ArrayLike, expected: float | None = None, *, left_out: int = 0
) -> Mean | None:
    """Mean with Student's error, pooled with an expected spread if there is one.

    Two or three values show their own spread so poorly that Student's t is 4 to 64 times its
    standard error. An expected spread counts like further degrees of freedom.

    Args:
        values: Independent values, such as log ratios of pairs of runs.
        expected: Expected standard deviation of one value, from another source.
        left_out: Number of values to leave out at each end, less than half of them: a burst of
            another program falls into single values.

    Returns:
        The mean; None if its spread is unknown: a single value without an expected spread.

    Raises:
        ValueError: If there is no value.

    Source: Smyth, "Linear models and empirical Bayes methods", Statistical Applications in
    Genetics and Molecular Biology 3 (2004), section 4 (moderated t); Tukey and McLaughlin,
    Sankhya A 25 (1963), for the error of a trimmed mean.
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    count = len(ordered)
    if not count:
        raise ValueError("no values have no mean")
    kept = count - 2 * left_out
    prior = EXPECTED_FREEDOM if expected is not None else 0
    freedom = kept - 1 + prior
    if not freedom:
        return None
    winsorised = np.clip(ordered, ordered[left_out], ordered[count - 1 - left_out])
    squares = float(((winsorised - winsorised.mean()) ** 2).sum())
    variance = (squares + prior * (expected or 0.0) ** 2) / freedom
    return Mean(
        float(ordered[left_out : count - left_out].mean()), math.sqrt(variance / kept), freedom
    )


def expected_spread(
    runs: Sequence[NDArray[np.int64]], statistic: Literal["median", "mean"] = "median"
) -> float:
    """Expected standard deviation of the log ratio of two runs, from the drift within runs.

    Noise of a computer has long memory: the medians of two parts of one run differ about as much
    as those of two runs of one program. So the spread of the parts is not divided by their number.

    Args:
        runs: Step durations of each run of either program, in any unit, above 0.
        statistic: Step time of a run.
    """
    drifts = [_drift(run, statistic) for run in runs]
    known = [drift for drift in drifts if drift is not None]
    within = float(np.median(known)) if known else 0.0
    return math.sqrt(2 * (within + BETWEEN_RUNS**2))


def _drift(run: NDArray[np.int64], statistic: str) -> float | None:
    """Variance of the log step time of an eighth of a run; None if it has too few steps.

    It is estimated from the median deviation, so that bursts in single parts do not count.
    """
    blocks = min(BLOCKS, len(run) // BLOCK_STEPS)
    if blocks < 2:
        return None
    centre = np.median if statistic == "median" else np.mean
    times = [float(centre(block)) for block in np.array_split(np.maximum(run, 1), blocks)]
    logs = np.log(times)
    return (_NORMAL_DEVIATION * float(np.median(np.abs(logs - np.median(logs))))) ** 2
