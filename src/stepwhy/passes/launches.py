"""Which host call caused which device slice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec.structs import replace

from stepwhy.columns.chunks import NO_ROWS, chunks, joined, take
from stepwhy.columns.groups import distinct, numbered
from stepwhy.columns.growing import collected
from stepwhy.columns.memory import empty, falses
from stepwhy.passes.selection import chosen, of_role
from stepwhy.trace import NULL, Kind, Role

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from stepwhy.passes.devices import Activity
    from stepwhy.trace import Trace

    Ids = NDArray[np.signedinteger[Any]]
    Rows = NDArray[np.signedinteger[Any]]

NO_CALL = -1
# A call to the device API that neither waits nor copies returns in microseconds; one that takes
# this long (ns) creates a context or loads a library.
FIRST_USE_NS = 10_000_000
# A process numbers its calls once. More than this share of them with a number that another, later
# call has, too, and the calls are of several processes with one id.
_MOST_REUSED = 0.1
# Ids that leave out no more numbers than this, or than four for each call, have a table.
_TABLE = 1 << 16


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

    device_rows: Rows
    call_row: Rows
    blocking_calls: NDArray[np.int64]
    reused: bool = False

    def joined(self) -> Iterator[tuple[Rows, Rows]]:
        """Device slices of which the call is known, and their calls, piece by piece."""
        for part in chunks(len(self.device_rows)):
            rows, calls = self.device_rows[part], self.call_row[part]
            known = np.flatnonzero(calls != NO_CALL)
            if len(known):
                yield rows[known], calls[known]

    def calls_of(self, rows: Rows) -> Rows:
        """The host call that caused each of some slices, NO_CALL where none is known; (rows,)."""
        found = np.full(len(rows), NO_CALL, dtype=np.int32)
        for part in chunks(len(rows) if len(self.device_rows) else 0):
            place = np.searchsorted(self.device_rows, rows[part].astype(np.int32))
            place[place == len(self.device_rows)] = 0
            is_one = self.device_rows[place] == rows[part]
            found[part][is_one] = self.call_row[place[is_one]]
        return found


def join_launches(trace: Trace, activities: Sequence[Activity] = ()) -> Launches:
    """Join device slices with the calls that caused them.

    Args:
        trace: The trace.
        activities: What is known of its devices: the rows of a single one need not be held twice.
    """
    slices, device_rows = trace.slices, _device_rows(trace, activities)
    calls = collected(_calls(trace))
    shared = _shared(slices.correlation, calls)
    again, ambiguous = _doubts(trace, calls[shared])
    reused = int(again.sum()) > _MOST_REUSED * len(calls)
    if len(shared):
        calls = np.delete(calls, shared[again | ambiguous])
    found = Launches(device_rows, _lookup(slices.correlation, calls, device_rows), NO_ROWS, reused)
    return replace(found, blocking_calls=_blocking(trace, found))


_DEVICE_KINDS = (Kind.KERNEL, Kind.COLLECTIVE, Kind.MEMCPY, Kind.MEMSET)
_CALLS = (Kind.LAUNCH, Kind.SYNC, Kind.RUNTIME)


def _device_rows(trace: Trace, activities: Sequence[Activity]) -> Rows:
    streams, device = of_role(trace, Role.STREAM), trace.tracks.device
    works = of_role(trace, Role.STREAM, Role.EXECUTOR)
    for activity in activities:
        if activity.index >= 0 and (streams == works & (device == activity.index)).all():
            return activity.rows
    return collected(chosen(trace, _DEVICE_KINDS, streams))


def _calls(trace: Trace) -> Iterator[NDArray[np.int64]]:
    """Calls of the device API that have a correlation id, piece by piece."""
    for rows in chosen(trace, _CALLS, of_role(trace, Role.HOST_THREAD)):
        yield rows[trace.slices.correlation[rows] > 0]


def _shared(ids: Ids, calls: Rows) -> NDArray[np.int64]:
    """Places of the calls whose correlation id another call has, too, ascending."""
    if _ascend(ids, calls):
        return NO_ROWS
    codes = _codes(ids, calls)
    one_of = empty(int(codes.max()) + 1, np.int32)
    for part in chunks(len(codes)):
        one_of[codes[part]] = np.arange(part.start, part.stop)
    is_shared = falses(len(one_of))
    for part in chunks(len(codes)):
        others = one_of[codes[part]] != np.arange(part.start, part.stop)
        is_shared[codes[part][others]] = True
    places = (np.flatnonzero(is_shared[codes[p]]) + p.start for p in chunks(len(codes)))
    return joined(places, NO_ROWS)


def _ascend(ids: Ids, calls: Rows) -> bool:
    """Whether every call has a higher id than the one before it."""
    return all(
        (np.diff(ids[calls[part.start : part.stop + 1]]) > 0).all() for part in chunks(len(calls))
    )


def _codes(ids: Ids, calls: Rows) -> NDArray[np.int32]:
    """Numbers from 0 on that are the same for calls with the same id; (calls,)."""
    low = _low_of_table(ids, calls)
    if low is None:
        return numbered(take(ids, calls))[1].astype(np.int32)
    codes = empty(len(calls), np.int32)
    for part in chunks(len(calls)):
        codes[part] = ids[calls[part]] - low
    return codes


def _low_of_table(ids: Ids, calls: Rows) -> int | None:
    """The lowest id of some calls if a table from there to the highest is small, else None."""
    bounds = [
        (int(some.min()), int(some.max())) for some in (ids[calls[p]] for p in chunks(len(calls)))
    ]
    low, high = min(low for low, _ in bounds), max(high for _, high in bounds)
    return low if high - low <= max(_TABLE, 4 * len(calls)) else None


def _doubts(trace: Trace, calls: Rows) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Of calls that share their correlation ids with others, which ones cannot be told apart.

    Args:
        trace: The trace.
        calls: The calls, ascending; (calls,).

    Returns:
        Whether a call at another time of the same process has the id, too: calls that overlap are
        one, a runtime call and the driver call inside it, or a repeated record; (calls,). And
        whether another process uses it: files of several ranks in one; (calls,).
    """
    again, ambiguous = np.zeros((2, len(calls)), dtype=bool)
    if not len(calls):
        return again, ambiguous
    ids, process = trace.slices.correlation[calls], trace.tracks.process[trace.slices.track[calls]]
    order = np.lexsort((process, ids))  # and then by their starts, as the calls are
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


def _lookup(ids: Ids, calls: Rows, device_rows: Rows) -> Rows:
    """The call with the correlation id of each device slice, NO_CALL where there is none."""
    result = empty(len(device_rows), np.int32)
    if not len(calls):
        result[:] = NO_CALL
        return result
    low = _low_of_table(ids, calls)
    find = _searched(ids, calls) if low is None else _from_table(ids, calls, low)
    for part in chunks(len(device_rows)):
        wanted = ids[device_rows[part]]
        result[part] = np.where(wanted == NULL, NO_CALL, find(wanted))
    return result


def _from_table(ids: Ids, calls: Rows, low: int) -> Callable[[Ids], Rows]:
    """Finds calls by their ids where a table of all ids is small."""
    most = max(int(ids[calls[part]].max()) for part in chunks(len(calls))) - low
    table = empty(most + 2, np.int32)
    table[:] = NO_CALL
    for part in reversed([*chunks(len(calls))]):
        # Of the calls under one id the first one counts.
        backwards = calls[part][::-1]
        table[ids[backwards] - low] = backwards

    def find(wanted: Ids) -> Rows:
        place = wanted - low
        place[(place < 0) | (place > most)] = most + 1  # the last entry is nobody's
        return table[place]

    return find


def _searched(ids: Ids, calls: Rows) -> Callable[[Ids], Rows]:
    """As `_from_table`, where ids are far apart."""
    keys = take(ids, calls)
    order = np.argsort(keys, kind="stable")
    keys, values = keys[order], calls[order]

    def find(wanted: Ids) -> Rows:
        place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where(keys[place] == wanted, values[place], np.int32(NO_CALL))

    return find


def _blocking(trace: Trace, launches: Launches) -> NDArray[np.int64]:
    """Copy calls that returned only after their copy had ended, ascending."""
    kinds, waiting = trace.slices.kind, []
    for rows, calls in launches.joined():
        copies = np.flatnonzero((kinds[rows] == Kind.MEMCPY) & (kinds[calls] == Kind.LAUNCH))
        called = calls[copies]
        waiting.append(called[trace.ends(rows[copies]) <= trace.ends(called)])
    waited = distinct(joined(waiting, NO_ROWS))
    if not len(waited):
        return waited
    # A graph launch returns while its later nodes run, whatever its first copy did.
    returned_early = falses(len(trace.slices))
    for rows, called in launches.joined():
        returned_early[called[trace.ends(rows) > trace.ends(called)]] = True
    return waited[~returned_early[waited]]
