"""Whether what repeats in a trace are iterations of a loop, and not layers of one pass.

The layers of a model repeat as regularly as the steps of its training do. Only a step updates
parameters, takes a batch, or waits before the next one begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepwhy.analyse.activity.selection import rows_of
from stepwhy.base.columns.intervals import windows_at
from stepwhy.base.columns.nesting import outermost
from stepwhy.base.patterns import regex
from stepwhy.trace import NULL, Copy, Kind, Phase, among

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.base.columns.nesting import Nesting
    from stepwhy.trace import Trace

    Rows = NDArray[np.signedinteger[Any]]
    Times = NDArray[np.int64]

# Names of kernels and operations that update parameters.
_OPTIMIZERS = regex(r"(?i)optimizer|multi_tensor_apply|adam|sgd|adagrad|rmsprop")
# What happens in more than this share of the repetitions belongs to each of them.
_MOST = 0.5
# Layers copy single numbers and small tables to the device; a batch has more bytes.
_SMALLEST_BATCH = 64
# Between two iterations, the driving thread or device pauses for at least this share of a
# repetition, and this many times longer than it pauses elsewhere in it. Between layers it does not.
_SHORTEST_PAUSE = 0.03
_CLEARLY_LONGEST = 2.0
# Embeddings and heads surround the layers of a pass. Work that exists only before the first or
# after the last repetition and takes this share of one shows that they are layers.
_MUCH_AROUND = 0.02
# Work that begins earlier than this share of a repetition before the first one is set-up.
_NEARBY = 0.5


def is_outer_loop(
    trace: Trace, nesting: Nesting, rows: Rows, starts: Times, ends: Times, *, on_device: bool
) -> bool:
    """Whether repetitions are iterations, by what only an outer loop does.

    Args:
        trace: The trace.
        nesting: Its call trees.
        rows: The operations or kernels that repeat, ascending; (rows,).
        starts: The repetitions; (repetitions,).
        ends: Likewise.
        on_device: Whether the repetitions are those of the device.
    """
    if _in_most(trace, _updates(trace, rows), starts, ends):
        return True
    if _much_around(trace, rows, starts):
        return False
    return (
        _in_most(trace, _batches(trace), starts, ends)
        or (not on_device and _in_most(trace, _waits(trace, nesting, rows), starts, ends))
        or _pauses(trace, rows, starts, ends)
    )


def works_between(trace: Trace, rows: Rows, starts: Times, ends: Times) -> bool:
    """Whether operations or kernels run in most repetitions, if the trace has any at all.

    Args:
        trace: The trace.
        rows: Slices of the driving thread outside of the fetches of batches.
        starts: The repetitions, each of which begins with such a fetch; (repetitions,).
        ends: Likewise.
    """
    calls = rows[among(trace.slices.kind[rows], (Kind.OP, Kind.LAUNCH))]
    work = np.concatenate([calls, rows_of(trace, (Kind.KERNEL,))])
    return not len(work) or _in_most(trace, np.sort(work), starts, ends)


def _in_most(trace: Trace, rows: Rows, starts: Times, ends: Times) -> bool:
    """Whether some of the slices begin in most repetitions."""
    repetition = windows_at(trace.slices.start_ns[rows], starts, ends)
    found = np.bincount(repetition[repetition != NULL], minlength=len(starts)) > 0
    return bool(found.mean() > _MOST)


def _updates(trace: Trace, rows: Rows) -> Rows:
    """Those of some slices that update parameters."""
    updates = trace.slices.phase[rows] == Phase.OPTIMIZER
    updates |= trace.matches(trace.slices.name[rows], _OPTIMIZERS.search)
    found: Rows = rows[updates]
    return found


def _batches(trace: Trace) -> Rows:
    """Copies to a device that may hold a batch."""
    copies = rows_of(trace, (Kind.MEMCPY,))
    size = trace.slices.bytes[copies]
    large = (size == NULL) | (size > _SMALLEST_BATCH)
    found: Rows = copies[(trace.slices.copy[copies] == Copy.H2D) & large]
    return found


def _waits(trace: Trace, nesting: Nesting, rows: Rows) -> Rows:
    """Waits for the device on the thread of some operations, outside of all of them."""
    if not len(rows):
        return rows
    waits = rows_of(trace, (Kind.SYNC,))
    waits = waits[trace.slices.track[waits] == trace.slices.track[rows[0]]]
    outer = outermost(nesting, np.sort(np.concatenate([rows, waits])))
    found: Rows = outer[trace.slices.kind[outer] == Kind.SYNC]
    return found


def _pauses(trace: Trace, rows: Rows, starts: Times, ends: Times) -> bool:
    """Whether one pause per repetition is clearly the longest."""
    since = np.maximum.accumulate(trace.ends(rows))[:-1]
    pause_ns = trace.slices.start_ns[rows[1:]] - since
    repetition = windows_at(since, starts, ends)
    # No pause follows the last repetition.
    pause_ns, repetition = (
        v[(repetition >= 0) & (repetition < len(starts) - 1)] for v in (pause_ns, repetition)
    )
    order = np.lexsort((pause_ns, repetition))
    pause_ns, repetition = pause_ns[order], repetition[order]
    last = np.flatnonzero(np.diff(repetition, append=NULL))
    longest, before = pause_ns[last], np.maximum(last - 1, 0)
    has_more = (last > 0) & (repetition[before] == repetition[last])
    second = np.where(has_more, np.maximum(pause_ns[before], 0), 0)
    if 2 * len(last) < len(starts):
        return False
    usual = float(np.median(longest))
    is_long = usual >= _SHORTEST_PAUSE * float(np.median(np.diff(starts)))
    return is_long and usual >= _CLEARLY_LONGEST * float(np.median(second))


def _much_around(trace: Trace, rows: Rows, starts: Times) -> bool:
    """Whether much other work surrounds the repetitions, which takes part in none of them."""
    work = rows[among(trace.slices.kind[rows], (Kind.OP, Kind.KERNEL))]
    name, start_ns = trace.slices.name[work], trace.slices.start_ns[work]
    inside = (start_ns >= starts[0]) & (start_ns < starts[-1])
    if not inside.any():
        return False
    own = np.isin(name, np.unique(name[inside]))
    after_last = np.flatnonzero(own)[-1] + 1
    nearby = starts[0] - _NEARBY * np.median(np.diff(starts))
    before_first = (start_ns < starts[0]) & (start_ns >= nearby)
    around = ~own & (before_first | (np.arange(len(work)) >= after_last))
    times = trace.slices.dur_ns[work]
    usual = times[inside].sum() / (len(starts) - 1)
    return bool(times[around].sum() > _MUCH_AROUND * usual)
