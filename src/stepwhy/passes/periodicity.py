"""The training loop without a marker: what repeats on the driving thread, or on the device.

First what only a training loop does once per iteration (the optimizer's step, the fetch of a
batch), then any call whose count is that of most others: in a loop of n iterations, most names
occur n times. Where the host was not recorded, or only its calls of the device API, the same is
asked of the kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec.structs import replace

from stepwhy.columns.groups import first_rows, numbered
from stepwhy.columns.nesting import outermost
from stepwhy.findings.reasons import Cut, Repeats
from stepwhy.passes.selection import mask, of_role, rows_of
from stepwhy.trace import Kind, Phase, Role, among

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.columns.nesting import Nesting
    from stepwhy.findings.reasons import StepNote
    from stepwhy.passes.threads import Threads
    from stepwhy.trace import Trace

    Rows = NDArray[np.signedinteger[Any]]

# What a host thread does besides calling the device API.
_TELLING = (Kind.OP, Kind.FRAMEWORK, Kind.ANNOTATION, Kind.PYTHON, Kind.INPUT)
# Two of anything do not make a rhythm.
_FEWEST_REPEATS = 3
# Share of the distinct outermost names that must agree on the count before it is believed.
_AGREEMENT = 0.3
# Periods of a loop vary by warm-up and jitter; wilder than this (median absolute deviation over
# median), the anchor is no loop.
_WILDEST = 0.5
# One kernel in a loop is no training step; at least so many names must agree.
_FEWEST_KERNELS = 3
# In a step of many equal layers most calls and kernels run once per layer, but many others, of the
# loss and the optimizer, once or a few times; in a loop of steps hardly any run in fewer than all.
_MOST_RARER = 0.1
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
    """The training loop on the driving thread or the device, or None when nothing repeats."""
    if not mask(trace, _TELLING, of_role(trace, Role.HOST_THREAD)).any():
        return _by_kernels(trace)
    if threads.driving < 0:
        return None
    rows = np.flatnonzero(trace.slices.track == threads.driving)
    for find in (_by_optimizer, _by_input, _by_agreement):
        period = find(trace, rows, nesting)
        if period is not None:
            return period
    return None


def _of_kinds(trace: Trace, rows: Rows, *kinds: Kind) -> Rows:
    """Those of some slices that are of some kinds."""
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
    """Whether every batch is stepped on several times: by the optimizers of a GAN, say.

    Fewer optimizer steps than batches are accumulated gradients, and one of them is a step.
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
    return _from_starts(trace, rows, anchor, 0.8, Cut.BY_BATCHES)


def _by_agreement(trace: Trace, rows: Rows, nesting: Nesting) -> Period | None:
    """The count that most distinct outermost names share; its first name in time is the anchor."""
    calls = _of_kinds(trace, rows, Kind.OP, Kind.FRAMEWORK, Kind.ANNOTATION)
    top = outermost(nesting, calls)
    period = _agreed(trace, rows, top)
    if period is None or 0 < len(_optimizer_steps(trace, rows, nesting)) < len(period.starts):
        return None
    return period if _share_of_rarer(trace, top, period) < _MOST_RARER_CALLS else None


def _by_kernels(trace: Trace) -> Period | None:
    """The same of the kernels of the device that ran most of them."""
    rows = _of_busiest_device(trace)
    if not len(rows):
        return None
    period = _agreed(trace, rows, rows)
    if period is None or not _is_whole_loop(trace, rows, period):
        return None
    return replace(period, on_device=True)


def _of_busiest_device(trace: Trace) -> Rows:
    """Kernels of the device that ran most of them."""
    rows = rows_of(trace, (Kind.KERNEL, Kind.COLLECTIVE), of_role(trace, Role.STREAM))
    device = trace.tracks.device[trace.slices.track[rows]]
    _, place = numbered(device)
    return rows[place == np.bincount(place).argmax()] if len(rows) else rows


def _is_whole_loop(trace: Trace, rows: Rows, period: Period) -> bool:
    """Whether kernels that repeat make up iterations of training, not layers of one of them."""
    counts = _counts(trace, rows, period)
    enough = int((counts == len(period.starts)).sum()) >= _FEWEST_KERNELS
    return enough and _share_of_rarer(trace, rows, period) <= _MOST_RARER


def _share_of_rarer(trace: Trace, rows: Rows, period: Period) -> float:
    """Share of the names that occur in fewer than all iterations, as many of one step do."""
    return float((_counts(trace, rows, period) < len(period.starts)).mean())


def _counts(trace: Trace, rows: Rows, period: Period) -> NDArray[np.int64]:
    """How often each name occurs from the first iteration on; what ran before set it up."""
    since = np.searchsorted(trace.slices.start_ns, period.starts[0])
    return _names(trace, rows[np.searchsorted(rows, since) :])[2]


def _names(trace: Trace, rows: Rows) -> tuple[Rows, Rows, Rows]:
    """Names of some slices, ascending, the place of the first with each, and how many have it.

    Args:
        trace: The trace.
        rows: The slices; (rows,).

    Returns:
        The names; (names,) each.
    """
    name = trace.slices.name[rows]
    names, place = numbered(name)
    return names, first_rows(name), np.bincount(place, minlength=len(names))


def _agreed(trace: Trace, rows: Rows, top: Rows) -> Period | None:
    """The loop whose iterations most names of some slices occur once in.

    Args:
        trace: The trace.
        rows: All slices of the loop; the last iteration ends with the last of them.
        top: Those that are counted.
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
    spread = np.abs(np.diff(period.starts) - np.median(np.diff(period.starts)))
    return period if np.median(spread) < _WILDEST * np.median(np.diff(period.starts)) else None


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
