"""Comparison of two settings that alternate in blocks of steps within one process."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import numpy as np
from msgspec.structs import replace

from stepwhy.measure.stats.moderated import moderated_mean
from stepwhy.measure.stats.paired import Ratio, ratio_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike, NDArray

    from stepwhy.measure.stats.moderated import Mean

# Three pairs mistake correlated noise for a difference too often (6 of 100 at a level of 98 %).
_FEWEST = 4
# From this many pairs on, the mean is trimmed; fewer leave too few degrees of freedom.
_TRIMMED_FROM = 10


def arm_of_block(number: int) -> int:
    """Setting of a block, 0 or 1, in the order A B B A, which cancels a linear drift.

    Args:
        number: Number of the block, from 0.
    """
    return (number + 1) // 2 % 2


def switched_ratio(
    durations_ns: ArrayLike,
    arm: ArrayLike,
    block: ArrayLike,
    *,
    warm: int = 1,
    statistic: Literal["median", "mean"] = "median",
    level: float = 0.98,
) -> Ratio | None:
    """Compare two settings by the log ratios of neighbouring blocks of steps.

    A block is one sample: its steps are correlated. The autocorrelation of the pairs' ratios, if
    positive, reduces their effective number. With ten pairs or more, the mean is a trimmed one.

    Args:
        durations_ns: Duration of each step, in order, in any unit; above 0.
        arm: Setting of each step: 0 or 1.
        block: Number of the block of each step; constant within a block.
        warm: Steps to leave out after each switch of the setting, and at the beginning.
        statistic: Step time of a block. The mean also measures rare long steps; the median is less
            affected by other programs.
        level: Confidence level.

    Returns:
        The ratio of setting 1 to setting 0, with `pairs` as the number of pairs of blocks; None
        with fewer than four pairs.

    Raises:
        ValueError: If the arrays differ in length, or a block has steps of both settings.

    Source: Zwiers and von Storch, "Taking Serial Correlation into Account in Tests of the Mean",
    Journal of Climate 8 (1995), for the effective number.
    """
    durations = np.asarray(durations_ns, dtype=np.float64)
    arms, blocks = np.asarray(arm, dtype=np.int64), np.asarray(block, dtype=np.int64)
    if not len(durations) == len(arms) == len(blocks):
        raise ValueError("durations, arms and blocks differ in length")
    found = _log_ratios(list(_blocks(durations, arms, blocks, warm, statistic)))
    if len(found) < _FEWEST:
        return None
    mean = _correlated_mean(np.array(found))
    return ratio_of(mean, len(found), level) if mean else None


def _blocks(
    durations: NDArray[np.float64],
    arms: NDArray[np.int64],
    blocks: NDArray[np.int64],
    warm: int,
    statistic: str,
) -> Iterator[tuple[int, float]]:
    """Setting and log step time of each block that has steps left."""
    centre = np.median if statistic == "median" else np.mean
    borders = np.flatnonzero(blocks[1:] != blocks[:-1]) + 1
    before = None
    for begin, end in zip([0, *borders], [*borders, len(blocks)], strict=True):
        if begin == end:
            continue
        setting = int(arms[begin])
        if (arms[begin:end] != setting).any():
            raise ValueError(f"block {blocks[begin]} has steps of both settings")
        steps = durations[begin + (warm if setting != before else 0) : end]
        before = setting
        if len(steps):
            yield setting, math.log(max(float(centre(steps)), 1e-9))


def _log_ratios(blocks: list[tuple[int, float]]) -> list[float]:
    """Log ratio of each pair of neighbouring blocks with different settings; each used once."""
    ratios, at = [], 0
    while at + 1 < len(blocks):
        (first, first_log), (second, second_log) = blocks[at : at + 2]
        if first == second:
            at += 1
            continue
        ratios.append(second_log - first_log if second else first_log - second_log)
        at += 2
    return ratios


def _correlated_mean(ratios: NDArray[np.float64]) -> Mean | None:
    """Mean of values whose neighbours may be correlated."""
    left_out = len(ratios) // 4 if len(ratios) >= _TRIMMED_FROM else 0
    mean = moderated_mean(ratios, left_out=left_out)
    if mean is None:
        return None
    # Bursts are left out of the mean, and would hide the correlation of the others.
    low, high = np.quantile(ratios, [0.25, 0.75])
    values = np.clip(ratios, low, high) if left_out else ratios
    # Effective number of values divided by their number, at most 1.
    centred = values - values.mean()
    total = float((centred**2).sum())
    correlation = float((centred[1:] * centred[:-1]).sum()) / total if total else 0.0
    correlation = min(max(correlation, 0.0), 1 - 2 / max(len(values), 3))
    share = (1 - correlation) / (1 + correlation)
    return replace(mean, error=mean.error / math.sqrt(share))
