"""What a number of repeats can find, before it is made."""

from __future__ import annotations

import math

from stepwhy.measure.stats.moderated import EXPECTED_FREEDOM, Mean, pairs_left_out

# Spread of the log ratio of a pair of runs before anything is measured: the median over the pairs
# of the lab on an ordinary machine (`lab/results`). Others range from 1 to 19 %.
USUAL_SPREAD = 0.05
_MOST_PAIRS = 200


def detectable_change(pairs: int, spread: float = USUAL_SPREAD, *, level: float = 0.98) -> float:
    """Smallest slowdown, as a fraction, that so many pairs find in 80 % of cases.

    Args:
        pairs: Number of pairs of runs or of blocks; at least 1.
        spread: Standard deviation of the log ratio of one pair.
        level: Confidence level.

    Returns:
        The slowdown; infinity for a single pair, which gives no interval.
    """
    if pairs < 2:
        return math.inf
    # The error of a trimmed mean of normal values is slightly larger, and known from fewer of them.
    left_out = pairs_left_out(pairs)
    error = spread / math.sqrt(pairs) * (1 + left_out / pairs / 3)
    mean = Mean(0.0, error, pairs - 2 * left_out - 1 + EXPECTED_FREEDOM)
    return math.expm1(min(mean.detectable(level), 50.0))


def pairs_needed(change: float, spread: float = USUAL_SPREAD, *, level: float = 0.98) -> int | None:
    """Number of pairs that find a change in 80 % of cases.

    Args:
        change: The change to find, as a fraction; -0.15 for a fix that is worth 15 %.
        spread: Standard deviation of the log ratio of one pair.
        level: Confidence level.

    Returns:
        The number of pairs; None if even 200 do not.
    """
    size = math.expm1(abs(math.log1p(change)))
    for pairs in range(2, _MOST_PAIRS + 1):
        if detectable_change(pairs, spread, level=level) <= size:
            return pairs
    return None
