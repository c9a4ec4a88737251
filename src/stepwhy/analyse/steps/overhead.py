"""Cost of observation and of profiling per step, measured in the run itself.

In some steps of every period the observer does nothing but time them: these are *light* steps. The
first and the last ones of each block of them are compared with as many full steps right before and
right after it, so that drift over the run affects both sides equally.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

# The range of six differences covers their median with 97 %, that of five only with 94 %.
_FEWEST_BLOCKS = 6
# Steps from one light block to the next, if the log has too few blocks to measure it.
_USUAL_PERIOD = 32
# The last ones of a long run; more do not narrow the interval visibly.
_MOST_BLOCKS = 1000
# If an interval around zero reaches further than this from its middle, the cost is unknown: 1 % of
# a step, or a time that is negligible for any step.
_WIDEST_SHARE = 0.01
_WIDEST_NS = 5_000
# Light steps on each side of a block that are compared; between them the run may drift.
_COMPARED = 8
_LIGHT, _FULL = 1, 0
# Times the usual step that profiling adds, and the lower end of its 95 % interval: from there on,
# the profiled steps do not show how the others divide.
_UNTYPICAL = 2.0
_LEAST_SURE = 1.0
# Unprofiled steps on each side that a profiled one is compared with.
_BESIDE = 16
_RESAMPLES = 400
_MOST_RESAMPLED = 1000  # steps; more do not narrow the interval visibly


class ObserverCost(msgspec.Struct, frozen=True):
    """Time that observation adds to a step.

    Args:
        cost_ns: Median over the blocks; None if the interval is too wide or there are too few
            blocks.
        interval_ns: Its 95 % interval over the blocks; None with too few of them.
        missing_steps: Estimated number of further steps needed; None if the cost is known.
    """

    cost_ns: int | None
    interval_ns: tuple[int, int] | None
    missing_steps: int | None


def is_untypical(cost: float | None, interval: tuple[float, float] | None) -> bool:
    """Whether profiling surely made the profiled steps several times as long as the others.

    Args:
        cost: Relative cost of profiling a step; None if unknown.
        interval: Its 95 % interval; None if unknown.
    """
    return (
        cost is not None
        and interval is not None
        and cost >= _UNTYPICAL
        and (interval[0] >= _LEAST_SURE)
    )


def observer_cost(
    durations_ns: NDArray[np.int64], light: NDArray[np.int8], rows: NDArray[np.int64]
) -> ObserverCost | None:
    """The cost of observation, None for a long run without light steps.

    Args:
        durations_ns: Wall time of the steady unprofiled steps, ns; (steps,).
        light: `marks.light` of these steps; (steps,).
        rows: Their rows in `marks`; only steps in consecutive rows are compared; (steps,).
    """
    needed = (_FEWEST_BLOCKS + 1) * _USUAL_PERIOD
    if not (light == _LIGHT).any():
        return ObserverCost(None, None, needed - len(rows)) if len(rows) < needed else None
    blocks = _light_blocks(light, rows)[-_MOST_BLOCKS:]
    compared = (_difference(durations_ns, light, rows, block) for block in blocks)
    differences = [d for d in compared if d is not None]
    period = _period(blocks)
    if len(differences) < _FEWEST_BLOCKS:
        return ObserverCost(None, None, (_FEWEST_BLOCKS - len(differences)) * period)
    low, high = median_interval(differences)
    interval = (round(low), round(high))
    widest = max(_WIDEST_SHARE * float(np.median(durations_ns)), _WIDEST_NS)
    excess = (high - low) / 2 / widest
    if excess > 1 and low <= 0 <= high:
        # The interval narrows with the square root of the number of blocks.
        return ObserverCost(None, interval, math.ceil(len(differences) * (excess**2 - 1)) * period)
    return ObserverCost(round(float(np.median(differences))), interval, None)


def added_share(
    durations_ns: NDArray[np.int64],
    profiled: NDArray[np.int8],
    light: NDArray[np.int8],
    cost_ns: int,
) -> float | None:
    """What observed and profiled steps add to the time of a run, relative to the rest of it.

    Start-up, the time that it takes to time a step, and the profiler's effect on later steps are
    not included.

    Args:
        durations_ns: Wall time of every step, ns; (steps,).
        profiled: `marks.profiled` of these steps; (steps,).
        light: `marks.light` of these steps; (steps,).
        cost_ns: Time that observation adds to a full step.

    Returns:
        None if every step was profiled.
    """
    free, traced = np.flatnonzero(profiled == 0), np.flatnonzero(profiled != 0)
    if not len(free):
        return None
    places = np.searchsorted(free, traced)
    beside = (free[max(p - _BESIDE, 0) : p + _BESIDE] for p in places.tolist())
    usual_ns = sum(float(np.median(durations_ns[rows])) for rows in beside)
    added_ns = max(float(durations_ns[traced].sum()) - usual_ns, 0.0)
    added_ns += max(cost_ns, 0) * int((light[free] != _LIGHT).sum())
    rest_ns = float(durations_ns.sum()) - added_ns
    return round(added_ns / rest_ns, 4) if rest_ns > 0 else None


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Two of the values that enclose the true median with a probability of at least 95 %.

    Valid for any distribution and at least 6 values; a bootstrap over so few would be too narrow.

    Args:
        values: Independent measurements.

    Source: David and Nagaraja, "Order Statistics" (2003), section 7.1.
    """
    ordered, count = sorted(values), len(values)
    # Fewer than `outer` of `count` coin tosses are heads with a probability of at most 2.5 %.
    outer, below = 0, 1
    while 40 * below <= 2**count:
        outer += 1
        below += math.comb(count, outer)
    outer = max(outer, 1)
    return ordered[outer - 1], ordered[count - outer]


def _light_blocks(light: NDArray[np.int8], rows: NDArray[np.int64]) -> list[slice]:
    """Positions of each block of consecutive light steps."""
    places = np.flatnonzero(light == _LIGHT)
    # Consecutive in the log: nothing profiled lies between.
    new = np.flatnonzero(np.diff(rows[places]) != 1) + 1
    return [slice(int(b[0]), int(b[-1]) + 1) for b in np.split(places, new)]


def _difference(
    durations_ns: NDArray[np.int64],
    light: NDArray[np.int8],
    rows: NDArray[np.int64],
    block: slice,
) -> float | None:
    """Median full step around a block minus median light step at its ends; None without neighbours.

    All groups are equally large: the median of a few skewed values depends on their number.
    """
    size = min(block.stop - block.start, _COMPARED)
    first, end = block.start - size, block.stop + size
    if first < 0 or end > len(rows) or rows[end - 1] - rows[first] != end - first - 1:
        return None
    before, after = slice(first, block.start), slice(block.stop, end)
    if (light[before] != _FULL).any() or (light[after] != _FULL).any():
        return None
    opening = slice(block.start, block.start + size)
    closing = slice(block.stop - size, block.stop)
    full = np.median(durations_ns[before]) + np.median(durations_ns[after])
    timed = np.median(durations_ns[opening]) + np.median(durations_ns[closing])
    return float(full - timed) / 2


def _period(blocks: list[slice]) -> int:
    """Steps from one block to the next."""
    starts = [b.start for b in blocks]
    return round(float(np.median(np.diff(starts)))) if len(starts) > 1 else _USUAL_PERIOD


def ratio_of_medians(
    profiled: NDArray[np.int64], free: NDArray[np.int64]
) -> tuple[float, tuple[float, float]]:
    """Median profiled step over median unprofiled one, minus 1, with a 95 % bootstrap interval.

    Args:
        profiled: Wall times of profiled steps, ns; (steps,).
        free: Wall times of unprofiled steps, ns; (steps,).
    """
    # Resampled here in two lines: SciPy would cost every start a third of a second.
    random = np.random.default_rng(0)

    def medians(values: NDArray[np.int64]) -> NDArray[np.float64]:
        chosen = values[-_MOST_RESAMPLED:]
        drawn = random.integers(0, len(chosen), (_RESAMPLES, len(chosen)))
        result: NDArray[np.float64] = np.median(chosen[drawn], axis=1)
        return result

    low, high = np.percentile(medians(profiled) / medians(free), [2.5, 97.5]) - 1
    cost = float(np.median(profiled)) / float(np.median(free)) - 1
    return round(cost, 3), (round(float(low), 3), round(float(high), 3))
