"""Comparison of two programs by pairs of neighbouring runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.stats.bootstrap import Interval
from stepwhy.stats.student import student_quantile

if TYPE_CHECKING:
    from collections.abc import Sequence

# Probability of finding a difference of the detectable size.
_POWER = 0.8


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
        pairs: Number of pairs of runs.
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
    first: Sequence[float], second: Sequence[float], *, level: float = 0.99
) -> Ratio | None:
    """Compare two programs by the ratios within pairs of neighbouring runs.

    A drift of the machine affects both runs of a pair. Ratios are averaged as logarithms, with
    Student's t for the few degrees of freedom.

    Args:
        first: Step time of each run of the first program, in any unit, above 0.
        second: Step times of the second program, in the same order.
        level: Confidence level.

    Returns:
        The ratio; None for fewer than two pairs, as the variation between runs is unknown.

    Raises:
        ValueError: If the numbers of runs differ.

    Source: Schuirmann, "A comparison of the two one-sided tests procedure", J. Pharmacokinetics
    and Biopharmaceutics 15 (1987).
    """
    if len(first) != len(second):
        raise ValueError(f"{len(first)} runs cannot be paired with {len(second)}")
    if len(first) < 2:
        return None
    logs = np.log(np.asarray(second, dtype=np.float64) / np.asarray(first, dtype=np.float64))
    mean, error, freedom = float(logs.mean()), _standard_error(logs), len(logs) - 1
    outer, inner = (student_quantile(freedom, share) for share in ((1 + level) / 2, level))
    reach = (outer + student_quantile(freedom, _POWER)) * error
    ends = np.expm1([mean - outer * error, mean + outer * error])
    inner_ends = np.expm1([mean - inner * error, mean + inner * error])
    return Ratio(
        float(np.expm1(mean)),
        float(ends[0]),
        float(ends[1]),
        float(inner_ends[0]),
        float(inner_ends[1]),
        float(np.expm1(reach)),
        level,
        len(logs),
    )


def paired_difference(
    first: Sequence[float], second: Sequence[float], *, level: float = 0.99
) -> Interval | None:
    """Mean of second minus first over pairs, with Student's interval; None below two pairs.

    Args:
        first: A quantity of each run of the first program.
        second: The same quantity of the second program, in the same order.
        level: Confidence level.
    """
    if len(first) != len(second) or len(first) < 2:
        return None
    differences = np.asarray(second, dtype=np.float64) - np.asarray(first, dtype=np.float64)
    mean = float(differences.mean())
    reach = student_quantile(len(differences) - 1, (1 + level) / 2) * _standard_error(differences)
    return Interval(mean, mean - reach, mean + reach, level)


def _standard_error(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values)))
