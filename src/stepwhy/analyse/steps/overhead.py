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

from stepwhy.analyse.steps.stalls import time_of_kinds
from stepwhy.trace import Kind
from stepwhy.trace.kinds import HAND_OVER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepwhy.analyse.steps.step_search import StepTable
    from stepwhy.trace import Trace

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
# With fewer profiled steps the cost of profiling is lost in noise.
_FEWEST_PROFILED = 3
# Steps before and after profiled ones, with which these are compared if other programs compete for
# the cores: the waits for a core are alike within some steps, but not over a whole run.
_NEAREST = 16
_LITTLE = 0.2  # of a step; what two runs of the same program may differ by
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
    places = np.flatnonzero(light == _LIGHT)
    # Consecutive in the log: nothing profiled lies between.
    new = np.flatnonzero(np.diff(rows[places]) != 1) + 1
    blocks = [slice(int(b[0]), int(b[-1]) + 1) for b in np.split(places, new)][-_MOST_BLOCKS:]
    compared = (_difference(durations_ns, light, rows, block) for block in blocks)
    differences = [d for d in compared if d is not None]
    starts = [b.start for b in blocks]
    period = round(float(np.median(np.diff(starts)))) if len(starts) > 1 else _USUAL_PERIOD
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


def profiler_cost(
    trace: Trace,
    recorded: StepTable,
    chosen: NDArray[np.int64],
    steady: NDArray[np.int64],
    *,
    in_call: bool,
    is_contended: bool,
) -> tuple[float, tuple[float, float]] | tuple[None, None]:
    """Relative cost of profiling a step, with its 95 % bootstrap interval; None if unknown.

    Args:
        trace: The trace, with `marks`.
        recorded: The steps that were profiled.
        chosen: Rows of `marks` of all steps of the described stretch, ascending; (steps,).
        steady: Rows of its steady unprofiled steps.
        in_call: Whether the same part of each step is its run call.
        is_contended: Whether other programs kept the process waiting for cores. Unless the cost is
            little or very large, these waits may be what differs.
    """
    if _profile_themselves(trace, steady):
        return None, None  # they show no step without a profiler
    marks, compared = trace.marks, _comparable(trace, chosen, steady, nearest=is_contended)
    profiled_ns = (recorded.durations_ns + handed_over(trace, recorded))[recorded.steady]
    free_ns = (marks.graph_ns if in_call else marks.dur_ns)[steady][compared]
    cost, interval = _ratio(recorded, profiled_ns, free_ns)
    if cost is None or interval is None:
        return None, None
    if is_contended and interval[1] > _LITTLE and not is_untypical(cost, interval):
        return None, None
    return cost, interval


def _profile_themselves(trace: Trace, steps: NDArray[np.int64]) -> bool:
    """Whether the training's own profiler was on in most of the steps that stepwhy did not trace.

    They then show no step without a profiler.
    """
    own, marks = time_of_kinds(trace, "profiler"), trace.marks
    recorded = own.within(marks.start_ns[steps], (marks.start_ns + marks.dur_ns)[steps]) > 0
    return bool(recorded.mean() > 0.5) if len(steps) else False


def handed_over(trace: Trace, recorded: StepTable) -> NDArray[np.int64]:
    """Time that the profiler took to write its records after each traced step, ns; (steps,).

    Args:
        trace: The trace.
        recorded: Its steps.
    """
    rows = trace.rows(Kind.PROFILER)
    rows = rows[np.isin(trace.slices.name[rows], trace.strings_where({HAND_OVER}))]
    step = np.searchsorted(recorded.host_starts, trace.slices.start_ns[rows], side="right") - 1
    sums = np.zeros(len(recorded.starts), dtype=np.int64)
    np.add.at(sums, step[step >= 0], trace.slices.dur_ns[rows[step >= 0]])
    return sums


def _comparable(
    trace: Trace, chosen: NDArray[np.int64], steady: NDArray[np.int64], *, nearest: bool
) -> NDArray[np.bool_]:
    """Mask of the unprofiled steps to compare the profiled ones with; (steady,).

    Args:
        trace: The trace, with `marks`.
        chosen: Rows of all steps of the described stretch.
        steady: Rows of its steady unprofiled steps.
        nearest: Whether to compare only steps next to profiled ones.
    """
    profiled = np.flatnonzero(trace.marks.profiled == 1)
    inside = chosen[trace.marks.profiled[chosen] == 1]
    if len(profiled) and not len(inside):
        return np.zeros(len(steady), dtype=bool)  # those of another stretch were profiled
    if not nearest or not len(inside):
        return np.ones(len(steady), dtype=bool)
    after = np.searchsorted(inside, steady)
    to_next = inside[np.minimum(after, len(inside) - 1)] - steady
    to_last = steady - inside[np.maximum(after - 1, 0)]
    found: NDArray[np.bool_] = np.minimum(np.abs(to_next), np.abs(to_last)) <= _NEAREST
    return found


def _ratio(
    recorded: StepTable, profiled_ns: NDArray[np.int64], free_ns: NDArray[np.int64]
) -> tuple[float, tuple[float, float]] | tuple[None, None]:
    """Relative cost of profiling with its interval.

    Args:
        recorded: The steps that were profiled.
        profiled_ns: Time of each steady profiled step, including what the profiler added.
        free_ns: Time of the same part of each steady unprofiled step: in TF1 the run call, without
            the Python between two calls.
    """
    enough = recorded.source == "marker" and len(recorded.starts) >= _FEWEST_PROFILED
    if not enough or not len(free_ns) or free_ns.min() <= 0:
        return None, None
    return ratio_of_medians(profiled_ns, free_ns)


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
