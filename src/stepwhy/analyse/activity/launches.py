"""The host call that caused each device slice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec.structs import replace

from stepwhy.analyse.activity.selection import of_role, rows_of
from stepwhy.base.columns.groups import distinct, looked_up, numbered
from stepwhy.trace import NULL, Kind, Role

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.trace import Trace

    Ids = NDArray[np.signedinteger[Any]]
    Rows = NDArray[np.signedinteger[Any]]

# A call to the device API that neither waits nor copies returns in microseconds; one that takes
# this long (ns) creates a context or loads a library.
FIRST_USE_NS = 10_000_000
# A process uses each correlation id once. If more than this share of the calls reuses an id, they
# are of several processes with one process id.
_MOST_REUSED = 0.1


class Launches(msgspec.Struct, frozen=True):
    """The join of host calls and device slices by correlation id.

    Args:
        device_rows: Slices on device streams, ascending; (device slices,).
        call_row: The host call that caused each of them, NULL if none was recorded.
        blocking_calls: Copy calls that returned only after their copy had ended: the host waited
            for the device, whatever the call's name says; rows of slices, ascending.
        reused: Whether calls under one process id share correlation ids: the file merges ranks of a
            job that cannot be distinguished.
    """

    device_rows: Rows
    call_row: Rows
    blocking_calls: NDArray[np.int64]
    reused: bool = False

    @property
    def joined(self) -> tuple[Rows, Rows]:
        """Device slices whose call is known, and their calls."""
        known = self.call_row != NULL
        if known.all():
            return self.device_rows, self.call_row
        return self.device_rows[known], self.call_row[known]

    def calls_of(self, rows: Rows) -> Rows:
        """The host call that caused each slice, NULL if none is known; (rows,)."""
        return looked_up(self.device_rows, self.call_row, rows, NULL)


def join_launches(trace: Trace) -> Launches:
    """Join device slices with the calls that caused them."""
    ids = trace.slices.correlation
    device_rows = rows_of(trace, _WORK, of_role(trace, Role.STREAM)).astype(np.int32)
    calls = rows_of(trace, _CALLS, of_role(trace, Role.HOST_THREAD)).astype(np.int32)
    calls = calls[ids[calls] > 0]
    shared = _shared(ids[calls])
    again, ambiguous = _ambiguous(trace, calls[shared])
    reused = int(again.sum()) > _MOST_REUSED * len(calls)
    calls = np.delete(calls, shared[again | ambiguous])
    call_row = looked_up(ids[calls], calls, ids[device_rows], NULL)
    found = Launches(device_rows, call_row, np.empty(0, dtype=np.int64), reused)
    return replace(found, blocking_calls=_blocking(trace, found))


_WORK = (Kind.KERNEL, Kind.COLLECTIVE, Kind.MEMCPY, Kind.MEMSET)
_CALLS = (Kind.LAUNCH, Kind.SYNC, Kind.RUNTIME)


def _shared(ids: Ids) -> NDArray[np.int64]:
    """Positions of the ids that occur several times, ascending."""
    if (ids[1:] > ids[:-1]).all():
        return np.empty(0, dtype=np.int64)
    _, place = numbered(ids)
    return np.flatnonzero(np.bincount(place)[place] > 1)


def _ambiguous(trace: Trace, calls: Rows) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Find the calls that their correlation ids do not identify.

    Args:
        trace: The trace.
        calls: The calls that share their ids with others, ascending; (calls,).

    Returns:
        Mask of the calls whose id another call of the same process has at another time; calls that
        overlap are one, such as a runtime call and the driver call inside it; (calls,). And mask of
        those whose id another process has, as in merged files of several ranks; (calls,).
    """
    again, ambiguous = np.zeros((2, len(calls)), dtype=bool)
    if not len(calls):
        return again, ambiguous
    ids, process = trace.slices.correlation[calls], trace.tracks.process[trace.slices.track[calls]]
    order = np.lexsort((process, ids))  # stable, so calls stay in order of their starts
    ids, process, rows = ids[order], process[order], calls[order]
    apart = trace.slices.start_ns[rows[1:]] > trace.ends(rows[:-1])
    same = ids[1:] == ids[:-1]
    twice = same & (process[1:] == process[:-1]) & apart
    again[order[1:]] |= twice
    again[order[:-1]] |= twice
    first = np.flatnonzero(np.append(True, ~same))
    count = np.diff(first, append=len(ids))
    ambiguous[order] = np.repeat(process[first] != process[first + count - 1], count)
    return again, ambiguous


def _blocking(trace: Trace, launches: Launches) -> NDArray[np.int64]:
    """Copy calls that returned only after their copy had ended, ascending."""
    kinds, (rows, calls) = trace.slices.kind, launches.joined
    is_copy = (kinds[rows] == Kind.MEMCPY) & (kinds[calls] == Kind.LAUNCH)
    copying = np.zeros(len(trace.slices), dtype=bool)
    copying[calls[is_copy]] = True
    # A graph launch returns while its later nodes run, whatever its first copy did.
    of_copying = copying[calls]
    rows, calls = rows[of_copying], calls[of_copying]
    returned_early = trace.ends(rows) > trace.ends(calls)
    return np.setdiff1d(distinct(calls), distinct(calls[returned_early]), assume_unique=True)


def owned_devices(trace: Trace, launches: Launches, driving: int) -> NDArray[np.bool_]:
    """Mask of devices on which only the driving process is known to launch work.

    Shape (devices + 2,): the last two entries are `OTHER_DEVICES` and `HOST_DEVICE`.

    Args:
        trace: A trace that merges several processes.
        launches: Its launches.
        driving: Track of the driving thread.
    """
    tracks, track = trace.tracks, trace.slices.track
    rows, calls = launches.joined
    device = tracks.device[track[rows]]
    is_own = tracks.process[track[calls]] == tracks.process[driving]
    own = np.zeros(len(trace.devices) + 2, dtype=bool)
    others = own.copy()
    own[device[is_own]] = True
    others[device[~is_own]] = True
    found: NDArray[np.bool_] = own & ~others
    return found
