"""Comparison of two programs by pairs of neighbouring runs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.measure.stats.bootstrap import Interval
from stepwhy.measure.stats.moderated import moderated_mean, pairs_left_out
from stepwhy.measure.stats.student import student_quantile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.measure.stats.moderated import Mean

# Larger logarithms overflow; such an interval says nothing anyway.
_LARGEST_LOG = 50.0


class Ratio(msgspec.Struct, frozen=True):
    """How much longer the second program takes, as a fraction of the first one's time.

    Args:
        change: Estimate; 0.1 is 10 % slower, -0.1 is 10 % faster.
        low: Lower end of its interval.
        high: Upper end.
        inner_low: Lower end of the interval for equivalence (two one-sided tests).
        inner_high: Its upper end.
        detectable: Smallest slowdown that is found in 80 % of cases, with this noise and number
            of runs.
        level: Confidence level of the interval.
        pairs: Number of pairs of runs, or of blocks of steps.
    """

    change: float
    low: float
    high: float
    inner_low: float
    inner_high: float
    detectable: float
    level: float
    pairs: int


def paired_ratio(
    first: Sequence[float],
    second: Sequence[float],
    *,
    level: float = 0.98,
    expected: float | None = None,
    drift: float = 0.0,
) -> Ratio | None:
    """Compare two programs by the ratios within pairs of neighbouring runs.

    A drift of the machine affects both runs of a pair. Ratios are averaged as logarithms, with
    Student's t for the few degrees of freedom. From eight pairs on, outlying ones are left out.

    Args:
        first: Step time of each run of the first program, in any unit, above 0.
        second: Step times of the second program, in the same order.
        level: Confidence level.
        expected: Expected standard deviation of a pair's log ratio, from the drift within the runs
            (`expected_spread`); None to use only the ratios.
        drift: Change of the machine, as a logarithm, that may look like one of the programs, if
            their runs did not alternate.

    Returns:
        The ratio; None for fewer than two pairs, as the variation between runs is unknown.

    Raises:
        ValueError: If the numbers of runs differ.
    """
    if len(first) != len(second):
        raise ValueError(f"{len(first)} runs cannot be paired with {len(second)}")
    if len(first) < 2:
        return None
    logs = np.log(np.asarray(second, dtype=np.float64) / np.asarray(first, dtype=np.float64))
    mean = moderated_mean(logs, expected, left_out=pairs_left_out(len(logs)))
    return ratio_of(mean, len(logs), level, drift) if mean else None


def ratio_of(mean: Mean, pairs: int, level: float, drift: float = 0.0) -> Ratio:
    """The ratio whose logarithm was estimated.

    Args:
        mean: Mean log ratio.
        pairs: Number of pairs that it is the mean of.
        level: Confidence level.
        drift: Change that the machine may have made, as a logarithm.

    Source: Schuirmann, "A comparison of the two one-sided tests procedure", J. Pharmacokinetics
    and Biopharmaceutics 15 (1987), for the inner interval.
    """
    reach = math.hypot(mean.reach(level), drift)
    inner = math.hypot(student_quantile(mean.freedom, level) * mean.error, drift)
    ends = [mean.value + way for way in (-reach, reach, -inner, inner)]
    change, low, high, inner_low, inner_high = (
        math.expm1(min(end, _LARGEST_LOG)) for end in (mean.value, *ends)
    )
    detectable = math.expm1(min(math.hypot(mean.detectable(level), drift), _LARGEST_LOG))
    return Ratio(change, low, high, inner_low, inner_high, detectable, level, pairs)


def paired_difference(
    first: Sequence[float],
    second: Sequence[float],
    *,
    level: float = 0.98,
    expected: float | None = None,
    drift: float = 0.0,
) -> Interval | None:
    """Mean of second minus first over pairs, with Student's interval; None below two pairs.

    All pairs count, so that it is the difference of the means that reports show beside it.

    Args:
        first: A quantity of each run of the first program.
        second: The same quantity of the second program, in the same order.
        level: Confidence level.
        expected: Expected standard deviation of a pair's difference; None to use only the pairs.
        drift: Change of the machine that may look like one of the programs, in the same unit.
    """
    if len(first) != len(second) or len(first) < 2:
        return None
    differences = np.asarray(second, dtype=np.float64) - np.asarray(first, dtype=np.float64)
    mean = moderated_mean(differences, expected)
    if mean is None:
        return None
    reach = math.hypot(mean.reach(level), drift)
    return Interval(mean.value, mean.value - reach, mean.value + reach, level)
