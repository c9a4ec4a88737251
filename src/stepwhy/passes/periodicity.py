"""The training loop without a marker: what repeats on the driving thread, or on the device.

First what only a training loop does once per iteration (the optimizer's step, the fetch of a
batch), then any call whose count is that of most others: in a loop of n iterations, most names
occur n times. Where the host was not recorded, or only its calls of the device API, the same is
asked of the kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np
from msgspec.structs import replace

from stepwhy.passes.call_tree import NO_PARENT
from stepwhy.passes.nesting import climb
from stepwhy.trace import Kind, Phase, Role, among

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.passes.nesting import Nesting
    from stepwhy.passes.threads import Threads
    from stepwhy.trace import Trace

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
# Letters of a name that a sentence has room for.
_LONGEST_NAME = 80


class Period(msgspec.Struct, frozen=True):
    """A loop found by what repeats in it.

    Args:
        starts, ends: One window per iteration, ns, disjoint and ascending.
        confidence: 0..1.
        note: What the loop was recognised by, one sentence.
        on_device: Whether the windows are the device's own, not the host's.
    """

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    confidence: float
    note: str
    on_device: bool = False


def find_period(trace: Trace, threads: Threads, nesting: Nesting) -> Period | None:
    """The training loop on the driving thread or the device, or None when nothing repeats."""
    if not len(trace.rows(*_TELLING, role=Role.HOST_THREAD)):
        return _by_kernels(trace)
    if threads.driving < 0:
        return None
    rows = np.flatnonzero(trace.slices.track == threads.driving)
    for find in (_by_optimizer, _by_input, _by_agreement):
        period = find(trace, rows, nesting)
        if period is not None:
            return period
    return None


def _by_optimizer(trace: Trace, rows: NDArray[np.int64], nesting: Nesting) -> Period | None:
    """Iterations end with `Optimizer.step`; the first begins where the thread's record does."""
    slices, steps = trace.slices, _optimizer_steps(trace, rows, nesting)
    if len(steps) < _FEWEST_REPEATS or _several_per_batch(trace, rows, nesting, len(steps)):
        return None
    ends = trace.ends(steps)
    starts = np.concatenate([[slices.start_ns[rows].min()], ends[:-1]])
    return Period(starts, ends, 0.9, "Steps are told by the calls of the optimizer.")


def _optimizer_steps(trace: Trace, rows: NDArray[np.int64], nesting: Nesting) -> NDArray[np.int64]:
    """Calls of an optimizer's step among some slices."""
    slices = trace.slices
    kind = rows[(slices.kind[rows] == Kind.FRAMEWORK) & (slices.phase[rows] == Phase.OPTIMIZER)]
    steps = kind[[".step" in trace.string(slices.name[r]) for r in kind]] if len(kind) else kind
    return _outermost(steps, nesting)


def _several_per_batch(trace: Trace, rows: NDArray[np.int64], nesting: Nesting, steps: int) -> bool:
    """Whether every batch is stepped on several times: by the optimizers of a GAN, say.

    Fewer optimizer steps than batches are accumulated gradients, and one of them is a step.
    """
    batches = len(_outermost(rows[trace.slices.kind[rows] == Kind.INPUT], nesting))
    return batches >= _FEWEST_REPEATS and steps >= 2 * batches - 1


def _by_input(trace: Trace, rows: NDArray[np.int64], nesting: Nesting) -> Period | None:
    """Iterations begin with the fetch of a batch."""
    fetches = _outermost(rows[trace.slices.kind[rows] == Kind.INPUT], nesting)
    names, counts = np.unique(trace.slices.name[fetches], return_counts=True)
    if not len(names) or counts.max() < _FEWEST_REPEATS:
        return None
    anchor = fetches[trace.slices.name[fetches] == names[counts.argmax()]]
    return _from_starts(trace, rows, anchor, 0.8, "Steps are told by the fetches of a batch.")


def _by_agreement(trace: Trace, rows: NDArray[np.int64], nesting: Nesting) -> Period | None:
    """The count that most distinct outermost names share; its first name in time is the anchor."""
    calls = among(trace.slices.kind[rows], (Kind.OP, Kind.FRAMEWORK, Kind.ANNOTATION))
    top = _outermost(rows[calls], nesting)
    period = _agreed(trace, rows, top)
    if period is None or 0 < len(_optimizer_steps(trace, rows, nesting)) < len(period.starts):
        return None
    return period if _share_of_rarer(trace, top, period) < _MOST_RARER_CALLS else None


def _by_kernels(trace: Trace) -> Period | None:
    """The same of the kernels of the device that ran most of them."""
    rows = trace.rows(Kind.KERNEL, Kind.COLLECTIVE, role=Role.STREAM)
    if not len(rows):
        return None
    device = trace.tracks.device[trace.slices.track[rows]]
    devices, counts = np.unique(device, return_counts=True)
    rows = rows[device == devices[counts.argmax()]]
    period = _agreed(trace, rows, rows)
    if period is None or not _is_whole_loop(trace, rows, period):
        return None
    return replace(period, on_device=True)


def _is_whole_loop(trace: Trace, rows: NDArray[np.int64], period: Period) -> bool:
    """Whether kernels that repeat make up iterations of training, not layers of one of them."""
    counts = _counts(trace, rows, period)
    enough = int((counts == len(period.starts)).sum()) >= _FEWEST_KERNELS
    return enough and _share_of_rarer(trace, rows, period) <= _MOST_RARER


def _share_of_rarer(trace: Trace, rows: NDArray[np.int64], period: Period) -> float:
    """Share of the names that occur in fewer than all iterations, as many of one step do."""
    return float((_counts(trace, rows, period) < len(period.starts)).mean())


def _counts(trace: Trace, rows: NDArray[np.int64], period: Period) -> NDArray[np.int64]:
    """How often each name occurs from the first iteration on; what ran before set it up."""
    inside = rows[trace.slices.start_ns[rows] >= period.starts[0]]
    counts: NDArray[np.int64] = np.unique(trace.slices.name[inside], return_counts=True)[1]
    return counts


def _agreed(trace: Trace, rows: NDArray[np.int64], top: NDArray[np.int64]) -> Period | None:
    """The loop whose iterations most names of some slices occur once in.

    Args:
        trace: The trace.
        rows: All slices of the loop; the last iteration ends with the last of them.
        top: Those that are counted.
    """
    slices = trace.slices
    names, first, counts = np.unique(slices.name[top], return_index=True, return_counts=True)
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
    note = f"Steps are told by what repeats: {agreed} times '{_short(trace, int(anchor_name))}'."
    period = _from_starts(trace, rows, anchor, round(0.4 + 0.3 * share, 2), note)
    spread = np.abs(np.diff(period.starts) - np.median(np.diff(period.starts)))
    return period if np.median(spread) < _WILDEST * np.median(np.diff(period.starts)) else None


def _short(trace: Trace, name: int) -> str:
    """A name that fits into a sentence: kernels have names of thousands of letters."""
    text = trace.string(name)
    return text if len(text) <= _LONGEST_NAME else f"{text[:_LONGEST_NAME]}..."


def _from_starts(
    trace: Trace,
    rows: NDArray[np.int64],
    anchor: NDArray[np.int64],
    confidence: float,
    note: str,
) -> Period:
    starts = trace.slices.start_ns[anchor]
    ends = np.append(starts[1:], trace.ends(rows).max())
    return Period(starts, ends, confidence, note)


def _outermost(rows: NDArray[np.int64], nesting: Nesting) -> NDArray[np.int64]:
    """Those of the rows that lie in no other of them."""
    chosen = np.zeros(len(nesting.parent), dtype=bool)
    chosen[rows] = True
    around = nesting.parent[rows]
    hung = np.flatnonzero(around != NO_PARENT)
    around[hung] = climb(nesting, around[hung].astype(np.int64), chosen)
    outermost: NDArray[np.int64] = rows[around == NO_PARENT]
    return outermost
