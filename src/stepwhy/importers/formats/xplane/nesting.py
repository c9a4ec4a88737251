"""Which event encloses which, on all threads at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepwhy.importers.formats.xplane import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.signedinteger[Any]]
    Bools = NDArray[np.bool_]


def enclosing(line: Ints, start_ns: Ints, dur_ns: Ints) -> Ints:
    """The innermost event that is still open when each one starts, -1 for none.

    Args:
        line: The thread of every event, ascending.
        start_ns: Starts; on each thread ascending, the longest first of those that are equal.
        dur_ns: Durations.
    """
    kernel = compiled.for_rows(len(line), "enclose_events")
    if kernel is None:
        return _enclosing(_first_of_line(line), start_ns, start_ns + dur_ns)
    outer = np.empty(len(line), dtype=np.int32)
    columns = (
        np.ascontiguousarray(line, dtype=np.int32),
        np.ascontiguousarray(start_ns, dtype=np.int64),
        np.ascontiguousarray(dur_ns, dtype=np.int64),
    )
    kernel(*(column.ctypes.data for column in columns), len(line), outer.ctypes.data)
    return outer


def nearest(outer: Ints, holds: Bools) -> Ints:
    """The innermost event around each one for which something holds, -1 for none.

    Args:
        outer: What `enclosing` returned.
        holds: For every event.
    """
    kernel = compiled.for_rows(len(outer), "nearest_events")
    if kernel is None:
        return _nearest(outer, holds)
    outer = np.ascontiguousarray(outer, dtype=np.int32)
    found = np.empty_like(outer)
    holds = np.ascontiguousarray(holds)
    kernel(outer.ctypes.data, holds.ctypes.data, len(outer), found.ctypes.data)
    return found


def _first_of_line(line: Ints) -> Ints:
    """Row of the first event on the same thread."""
    is_first = np.ones(len(line), dtype=np.bool_)
    is_first[1:] = line[1:] != line[:-1]
    first = np.flatnonzero(is_first)
    return np.repeat(first.astype(np.int32), np.diff(first, append=len(line)))


def _enclosing(first: Ints, start_ns: Ints, end_ns: Ints) -> Ints:
    """As `enclosing`, for all events at once.

    Every event begins with the one before it as its candidate. While the candidate is over, its
    own candidate takes its place: what lies between the two was over even earlier. So candidates
    leap further in every round.

    Args:
        first: Row of the first event on the same thread, for every event.
        start_ns: Starts.
        end_ns: Ends.
    """
    at = np.arange(-1, len(first) - 1, dtype=np.int32)
    is_over = at >= first
    is_over[1:] &= end_ns[:-1] <= start_ns[1:]
    rows = np.flatnonzero(is_over).astype(np.int32)
    while len(rows):
        at[rows] = at[at[rows]]
        rows = rows[at[rows] >= first[rows]]
        rows = rows[end_ns[at[rows]] <= start_ns[rows]]
    at[at < first] = -1
    return at


def _nearest(outer: Ints, holds: Bools) -> Ints:
    at = outer.copy()
    rows = np.flatnonzero(at >= 0)
    rows = rows[~holds[at[rows]]]
    while len(rows):
        at[rows] = at[at[rows]]
        rows = rows[at[rows] >= 0]
        rows = rows[~holds[at[rows]]]
    return at
