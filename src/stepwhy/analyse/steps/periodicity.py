"""Find a training loop without step markers, by what repeats on a thread or a device.

The search starts with what only a training loop does once per iteration: the optimizer's step, the
fetch of a batch, a backward pass. Next is the most common number of calls per name: in a loop of n
iterations, most names occur n times. If the host was not recorded, or only its device API calls,
kernels are counted instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec.structs import replace

from stepwhy.analyse.activity.graph_captures import capture_time
from stepwhy.analyse.activity.selection import mask, of_role, of_threads, rows_of
from stepwhy.analyse.steps.outer_loop import is_outer_loop, works_between
from stepwhy.base.columns.groups import first_rows, numbered
from stepwhy.base.columns.intervals import windows_at
from stepwhy.base.columns.nesting import inside, outermost
from stepwhy.result.reasons import Cut, Repeats
from stepwhy.trace import NULL, Kind, Phase, Role, among

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.analyse.activity.threads import Threads
    from stepwhy.base.columns.nesting import Nesting
    from stepwhy.result.reasons import StepNote
    from stepwhy.trace import Trace

    Rows = NDArray[np.signedinteger[Any]]

# What a host thread does besides calling the device API.
_LOOP_KINDS = (Kind.OP, Kind.FRAMEWORK, Kind.ANNOTATION, Kind.PYTHON, Kind.INPUT)
# Two occurrences do not show a period.
_FEWEST_REPEATS = 3
# Share of the distinct outermost names that must have the same count.
_AGREEMENT = 0.3
# Periods of a loop vary by warm-up and jitter. If they vary by more than this (median absolute
# deviation over median), the calls are not a loop.
_LARGEST_SPREAD = 0.5
# A single repeated kernel is not a training step; this many names must have the same count.
_FEWEST_KERNELS = 3
# If the layers of one step repeat, many other names (of the loss and the optimizer) occur less
# often than the layers. In a loop of steps hardly any name occurs in fewer than all steps.
_MOST_RARER = 0.1
# Passes are steps, or several models take turns in a step, if at least this share of the passes
# repeats so. The others have operations that depend on the data.
_SAME_PASSES = 0.6
# If so many passes are equal, they are steps whatever time each takes: on a busy machine, the times
# of equal work differ severalfold.
_EQUAL_PASSES = 0.95
_MANY_PASSES = 10
# A step may accumulate the gradients of several passes.
_OF_PASSES = 0.7
# The host also does what comes before and after a loop.
_MOST_RARER_CALLS = 0.3


class Period(msgspec.Struct, frozen=True):
    """A loop found by what repeats in it.

    Args:
        starts, ends: One window per iteration, ns, disjoint and ascending.
        confidence: 0..1.
        note: What the loop was recognised by.
        on_device: Whether the windows are the device's own, not the host's.
    """

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    confidence: float
    note: StepNote
    on_device: bool = False


def find_period(trace: Trace, threads: Threads, nesting: Nesting) -> Period | None:
    """The training loop on the driving thread or the device, or None if nothing repeats."""
    if not mask(trace, _LOOP_KINDS, of_role(trace, Role.HOST_THREAD)).any():
        return _by_kernels(trace, nesting)
    if threads.driving < 0:
        return None
    rows = np.flatnonzero(trace.slices.track == threads.driving)
    captured = capture_time(trace)  # runs nothing, so it is no iteration
    start_ns = trace.slices.start_ns[rows]
    rows = rows[windows_at(start_ns, captured.starts, captured.ends) == NULL]
    for find in (_by_optimizer, _by_input):
        period = find(trace, rows, nesting)
        if period is not None:
            return period
    engine = np.flatnonzero(mask(trace, (Kind.OP,), of_threads(trace, threads.autograd)))
    period = _by_passes(trace, rows, engine, nesting)
    return period or _by_agreement(trace, rows, nesting)


def _of_kinds(trace: Trace, rows: Rows, *kinds: Kind) -> Rows:
    """The slices that are of some kinds."""
    found: Rows = rows[among(trace.slices.kind[rows], kinds)]
    return found


def _by_optimizer(trace: Trace, rows: Rows, nesting: Nesting) -> Period | None:
    """Iterations end with `Optimizer.step`; the first begins where the thread's record does."""
    slices, steps = trace.slices, _optimizer_steps(trace, rows, nesting)
    if len(steps) < _FEWEST_REPEATS or _several_per_batch(trace, rows, nesting, len(steps)):
        return None
    ends = trace.ends(steps)
    starts = np.concatenate([slices.start_ns[rows[:1]], ends[:-1]])
    return Period(starts, ends, 0.9, Cut.BY_OPTIMIZER)


def _optimizer_steps(trace: Trace, rows: Rows, nesting: Nesting) -> Rows:
    """Calls of an optimizer's step among some slices."""
    slices = trace.slices
    kind = _of_kinds(trace, rows, Kind.FRAMEWORK)
    kind = kind[slices.phase[kind] == Phase.OPTIMIZER]
    steps = kind[[".step" in trace.string(slices.name[r]) for r in kind]] if len(kind) else kind
    return outermost(nesting, steps)


def _several_per_batch(trace: Trace, rows: Rows, nesting: Nesting, steps: int) -> bool:
    """Whether there are several optimizer steps per batch, as in a GAN.

    With fewer optimizer steps than batches, gradients are accumulated: then each optimizer step
    ends a training step.
    """
    batches = len(outermost(nesting, _of_kinds(trace, rows, Kind.INPUT)))
    return batches >= _FEWEST_REPEATS and steps >= 2 * batches - 1


def _by_input(trace: Trace, rows: Rows, nesting: Nesting) -> Period | None:
    """Iterations begin with the fetch of a batch."""
    fetches = outermost(nesting, _of_kinds(trace, rows, Kind.INPUT))
    names, _, counts = _names(trace, fetches)
    if not len(names) or counts.max() < _FEWEST_REPEATS:
        return None
    anchor = fetches[trace.slices.name[fetches] == names[counts.argmax()]]
    period = _from_starts(trace, rows, anchor, 0.8, Cut.BY_BATCHES)
    in_fetches = inside(nesting, mask(trace, (Kind.INPUT,)))
    others = rows[~in_fetches[rows]]
    return period if works_between(trace, others, period.starts, period.ends) else None


def _by_passes(trace: Trace, rows: Rows, engine: Rows, nesting: Nesting) -> Period | None:
    """Iterations end with a backward pass, of which each contains as many as repeat together.

    Args:
        trace: The trace.
        rows: Slices of the driving thread.
        engine: Operations of the threads of the autograd engine.
        nesting: The call trees.
    """
    calls = _of_kinds(trace, rows, Kind.OP, Kind.FRAMEWORK)
    top = outermost(nesting, np.sort(np.concatenate([calls, engine])))
    backward = trace.slices.phase[top] == Phase.BACKWARD
    begins = np.flatnonzero(backward[:-1] & ~backward[1:]) + 1
    begins = begins[begins < np.flatnonzero(backward)[-1]] if backward.any() else begins
    if len(begins) + 1 < _FEWEST_REPEATS or len(_optimizer_steps(trace, rows, nesting)):
        return None
    last = np.flatnonzero(backward)[-1]
    count, same = _repeat_together(trace.slices.name[top[: last + 1]], begins)
    if not count:
        return None
    # Set-up comes before the first pass, which begins with as many operations as its next like.
    forward = int(np.argmax(backward[begins[count - 1] :]))
    begins = np.append(max(int(np.argmax(backward)) - forward, 0), begins)[::count]
    starts = trace.slices.start_ns[top[begins]]
    ends = np.append(starts[1:], trace.ends(top[last : last + 1]))
    are_equal = same >= _EQUAL_PASSES and len(starts) >= _MANY_PASSES
    if len(starts) < _FEWEST_REPEATS or not (are_equal or _is_regular(starts)):
        return None
    return Period(starts, ends, _OF_PASSES, Cut.BY_PASSES)


def _repeat_together(names: Rows, begins: Rows) -> tuple[int, float]:
    """Number of consecutive passes after which the same operations follow again.

    Args:
        names: Names of the operations; (operations,).
        begins: Positions of the first operation of each pass; (passes,).

    Returns:
        The number, 0 if none do; and the share of the passes that equal the one so many before.
    """
    operations = np.add.reduceat(names.astype(np.int64), begins)
    for count in range(1, max(len(begins) // _FEWEST_REPEATS, 1) + 1):
        same = float((operations[count:] == operations[:-count]).mean())
        if same >= _SAME_PASSES:
            return count, same
    return 0, 0.0


def _is_regular(starts: Rows) -> bool:
    """Whether iterations take about equally long."""
    period_ns = np.diff(starts)
    usual = np.median(period_ns)
    return bool(np.median(np.abs(period_ns - usual)) < _LARGEST_SPREAD * usual)


def _by_agreement(trace: Trace, rows: Rows, nesting: Nesting) -> Period | None:
    """Iterations begin with the first of the outermost names that share the most common count."""
    calls = _of_kinds(trace, rows, Kind.OP, Kind.FRAMEWORK, Kind.ANNOTATION)
    top = outermost(nesting, calls)
    period = _agreed(trace, rows, top)
    if period is None or 0 < len(_optimizer_steps(trace, rows, nesting)) < len(period.starts):
        return None
    if _share_of_rarer(trace, top, period) >= _MOST_RARER_CALLS:
        return None
    is_loop = is_outer_loop(trace, nesting, top, period.starts, period.ends, on_device=False)
    return period if is_loop else None


def _by_kernels(trace: Trace, nesting: Nesting) -> Period | None:
    """The loop in the kernels of the device that ran most kernels."""
    rows = rows_of(trace, (Kind.KERNEL, Kind.COLLECTIVE), of_role(trace, Role.STREAM))
    device = trace.tracks.device[trace.slices.track[rows]]
    _, place = numbered(device)
    rows = rows[place == np.bincount(place).argmax()] if len(rows) else rows
    if not len(rows):
        return None
    period = _agreed(trace, rows, rows)
    if period is None or not _is_whole_loop(trace, rows, period):
        return None
    if not is_outer_loop(trace, nesting, rows, period.starts, period.ends, on_device=True):
        return None
    return replace(period, on_device=True)


def _is_whole_loop(trace: Trace, rows: Rows, period: Period) -> bool:
    """Whether kernels that repeat make up iterations of training, not layers of one of them."""
    counts = _counts(trace, rows, period)
    enough = int((counts == len(period.starts)).sum()) >= _FEWEST_KERNELS
    return enough and _share_of_rarer(trace, rows, period) <= _MOST_RARER


def _share_of_rarer(trace: Trace, rows: Rows, period: Period) -> float:
    """Share of the names that occur less often than there are iterations."""
    return float((_counts(trace, rows, period) < len(period.starts)).mean())


def _counts(trace: Trace, rows: Rows, period: Period) -> NDArray[np.int64]:
    """Occurrences of each name from the first iteration on, without the set-up before it."""
    since = np.searchsorted(trace.slices.start_ns, period.starts[0])
    return _names(trace, rows[np.searchsorted(rows, since) :])[2]


def _names(trace: Trace, rows: Rows) -> tuple[Rows, Rows, Rows]:
    """Names of some slices, ascending, with the position of the first slice and the count of each.

    Args:
        trace: The trace.
        rows: The slices; (rows,).

    Returns:
        Names, positions and counts; (names,) each.
    """
    name = trace.slices.name[rows]
    names, place = numbered(name)
    return names, first_rows(name), np.bincount(place, minlength=len(names))


def _agreed(trace: Trace, rows: Rows, top: Rows) -> Period | None:
    """The loop in which most names of some slices occur once per iteration.

    Args:
        trace: The trace.
        rows: All slices of the loop; the last iteration ends with the last of them.
        top: The slices whose names are counted.
    """
    slices = trace.slices
    names, first, counts = _names(trace, top)
    repeated = counts >= _FEWEST_REPEATS
    if not repeated.any():
        return None
    values, votes = np.unique(counts[repeated], return_counts=True)
    agreed = int(values[votes.argmax()])
    share = float(votes.max() / len(names))
    if share < _AGREEMENT:
        return None
    candidates = np.flatnonzero(counts == agreed)
    anchor_name = names[candidates[first[candidates].argmin()]]
    anchor = top[slices.name[top] == anchor_name]
    note = Repeats(agreed, trace.string(int(anchor_name)))
    period = _from_starts(trace, rows, anchor, round(0.4 + 0.3 * share, 2), note)
    return period if _is_regular(period.starts) else None


def _from_starts(
    trace: Trace,
    rows: Rows,
    anchor: Rows,
    confidence: float,
    note: StepNote,
) -> Period:
    starts = trace.slices.start_ns[anchor]
    ends = np.append(starts[1:], trace.ends(rows).max())
    return Period(starts, ends, confidence, note)
