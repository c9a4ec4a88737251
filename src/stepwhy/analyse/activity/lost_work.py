"""Steps whose device work the profiler did not record."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.analyse.activity.selection import of_role, rows_of
from stepwhy.base.columns.intervals import windows_at
from stepwhy.trace import NULL, Kind, Role

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.analyse.activity.launches import Launches
    from stepwhy.trace import Trace

    Times = NDArray[np.int64]

# Steps keep their device work if the share of launches with recorded work is at least this fraction
# of the largest share in any step.
_LEAST_RAN = 0.5
# A step lacks its end on the device if more than this share of its launches come after the last
# launch of the trace that has recorded work.
MOST_AFTER = 0.02
# Some profilers lack the work of launches everywhere. The last launches lost theirs only if so many
# in a row without any are less likely than this.
_UNLIKELY = 0.01


class Launched(msgspec.Struct, frozen=True):
    """The launches of a trace.

    Args:
        start_ns: When each of them begins, ascending; (launches,).
        ran: Whether the device work of each was recorded; (launches,).
    """

    start_ns: Times
    ran: NDArray[np.bool_]


def find_launched(trace: Trace, launches: Launches) -> Launched:
    """The launches of a trace, and whether their device work was recorded."""
    has_work = np.zeros(len(trace.slices), dtype=bool)
    has_work[launches.joined[1]] = True
    calls = rows_of(trace, (Kind.LAUNCH,), of_role(trace, Role.HOST_THREAD))
    calls = calls[trace.slices.correlation[calls] > 0]
    return Launched(trace.slices.start_ns[calls], has_work[calls])


def without_first_work(launched: Launched, starts: Times, ends: Times) -> int:
    """Number of leading steps whose device work the profiler lost, as few launches have any.

    CUPTI delivers no kernels from before its first synchronised time stamp; nothing in the trace
    says so.
    """
    made = _per_step(launched.start_ns, starts, ends)
    kept = _per_step(launched.start_ns[launched.ran], starts, ends)
    share = kept / np.maximum(made, 1)
    is_lost = (made > 0) & (share < _LEAST_RAN * share.max(initial=0))
    return 0 if is_lost.all() else int(np.argmin(is_lost))


def with_last_work(launched: Launched, starts: Times, ends: Times) -> int:
    """Number of leading steps whose device work was recorded to its end.

    A profile that stops without waiting for the device lacks the work that was still queued.
    """
    ran = np.flatnonzero(launched.ran)
    if not len(ran):
        return len(starts)
    recorded = int(ran[-1]) + 1
    after = launched.start_ns[recorded:]
    if (1 - len(ran) / recorded) ** len(after) > _UNLIKELY:
        return len(starts)
    made = _per_step(launched.start_ns, starts, ends)
    is_lost = _per_step(after, starts, ends) > MOST_AFTER * made
    return int(np.argmax(is_lost)) if is_lost.any() else len(starts)


def _per_step(times_ns: Times, starts: Times, ends: Times) -> NDArray[np.int64]:
    """Number of times in each step; (steps,)."""
    step = windows_at(times_ns, starts, ends)
    return np.bincount(step[step != NULL], minlength=len(starts))
