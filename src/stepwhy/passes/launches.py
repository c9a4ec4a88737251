"""Which host call caused which device slice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.passes.grouping import distinct, is_dense
from stepwhy.trace import NULL, Kind, Role

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.trace import Trace

NO_CALL = -1
# A process numbers its calls once. More than this share of them with a number that another, later
# call has, too, and the calls are of several processes with one id.
_MOST_REUSED = 0.1


class Launches(msgspec.Struct, frozen=True):
    """The join of host calls and device slices by correlation id.

    Args:
        device_rows: Slices on device streams, ascending; (device slices,).
        call_row: The host call that caused each of them, NO_CALL where none was recorded.
        blocking_calls: Copy calls that returned only after their copy had ended: the host waited
            for the device, whatever the call's name says; rows of slices, ascending.
        reused: Whether calls under one process id share their correlation ids: ranks of a job were
            merged into one file with nothing that tells them apart.
    """

    device_rows: NDArray[np.int64]
    call_row: NDArray[np.int64]
    blocking_calls: NDArray[np.int64]
    reused: bool = False

    @property
    def joined(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Device slices of which the call is known, and their calls; twice (joined,)."""
        known = self.call_row != NO_CALL
        if known.all():
            return self.device_rows, self.call_row
        return self.device_rows[known], self.call_row[known]

    def calls_of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The host call that caused each of some slices, NO_CALL where none is known; (rows,)."""
        found = np.full(len(rows), NO_CALL, dtype=np.int64)
        if len(self.device_rows):
            place = np.searchsorted(self.device_rows, rows)
            place[place == len(self.device_rows)] = 0
            is_one = self.device_rows[place] == rows
            found[is_one] = self.call_row[place[is_one]]
        return found


def join_launches(trace: Trace) -> Launches:
    """Join device slices with the calls that caused them."""
    slices = trace.slices
    device_rows = trace.rows(*_DEVICE_KINDS, role=Role.STREAM)
    calls = trace.rows(Kind.LAUNCH, Kind.SYNC, Kind.RUNTIME, role=Role.HOST_THREAD)
    calls = calls[slices.correlation[calls] > 0]
    again = _used_again(trace, calls)
    calls = calls[~again & ~_ambiguous(trace, calls)]
    call_row = _lookup(slices.correlation[calls], calls, slices.correlation[device_rows])
    reused = bool(again.sum() > _MOST_REUSED * len(again))
    return Launches(device_rows, call_row, _blocking(trace, device_rows, call_row), reused)


_DEVICE_KINDS = (Kind.KERNEL, Kind.COLLECTIVE, Kind.MEMCPY, Kind.MEMSET)


def _ambiguous(trace: Trace, calls: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Calls whose correlation id another process uses, too: files of several ranks in one."""
    process = trace.tracks.process[trace.slices.track[calls]]
    if not len(process) or (process == process[0]).all():
        return np.zeros(len(calls), dtype=bool)
    used = np.unique(np.stack([trace.slices.correlation[calls], process], axis=1), axis=0)
    ids, processes = np.unique(used[:, 0], return_counts=True)
    return np.isin(trace.slices.correlation[calls], ids[processes > 1])


def _used_again(trace: Trace, calls: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Calls whose correlation id a call at another time of the same process has, too.

    Calls that overlap are one: a runtime call and the driver call inside it, or a repeated record.
    """
    slices = trace.slices
    ids = slices.correlation[calls]
    if _all_differ(ids):
        return np.zeros(len(calls), dtype=bool)
    process = trace.tracks.process[slices.track[calls]]
    order = np.lexsort((slices.start_ns[calls], process, ids))
    ids, process, rows = ids[order], process[order], calls[order]
    apart = slices.start_ns[rows[1:]] > trace.ends(rows[:-1])
    twice = (ids[1:] == ids[:-1]) & (process[1:] == process[:-1]) & apart
    result = np.zeros(len(calls), dtype=bool)
    result[order[1:]] |= twice
    result[order[:-1]] |= twice
    return result


def _all_differ(ids: NDArray[np.int64]) -> bool:
    if (ids[1:] > ids[:-1]).all():
        return True
    return len(distinct(ids)) == len(ids)


def _lookup(
    keys: NDArray[np.int64], values: NDArray[np.int64], wanted: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The value of each wanted key, NO_CALL where there is none or the key is null."""
    result = np.full(len(wanted), NO_CALL, dtype=np.int64)
    if not len(keys):
        return result
    if is_dense(keys):
        return _from_table(keys, values, wanted)
    order = np.argsort(keys, kind="stable")
    keys, values = keys[order], values[order]
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    hit = (keys[place] == wanted) & (wanted != NULL)
    result[hit] = values[place[hit]]
    return result


def _from_table(
    keys: NDArray[np.int64], values: NDArray[np.int64], wanted: NDArray[np.int64]
) -> NDArray[np.int64]:
    """As `_lookup` where a table of all keys is small; of values under one key the first counts."""
    low, high = int(keys.min()), int(keys.max())
    table = np.full(high - low + 2, NO_CALL, dtype=np.int64)
    table[keys[::-1] - low] = values[::-1]
    is_key = (wanted >= low) & (wanted <= high) & (wanted != NULL)
    # The last entry is nobody's.
    found: NDArray[np.int64] = table[np.where(is_key, wanted - low, high - low + 1)]
    return found


def _blocking(
    trace: Trace, device_rows: NDArray[np.int64], call_row: NDArray[np.int64]
) -> NDArray[np.int64]:
    slices = trace.slices
    known = call_row != NO_CALL
    rows, calls = device_rows[known], call_row[known]
    copies = (slices.kind[rows] == Kind.MEMCPY) & (slices.kind[calls] == Kind.LAUNCH)
    if not copies.any():
        return np.empty(0, dtype=np.int64)
    early = trace.ends(rows) > trace.ends(calls)
    waiting = distinct(calls[copies & ~early])
    # A graph launch returns while its later nodes run, whatever its first copy did.
    returned_early = np.zeros(len(slices), dtype=bool)
    returned_early[calls[early]] = True
    return waiting[~returned_early[waiting]]
