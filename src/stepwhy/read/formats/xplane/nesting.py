"""Enclosing events, for all threads at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.base.columns import compiled
from stepwhy.base.columns.nesting import inherit
from stepwhy.base.columns.null import NULL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.base.columns.types import AnyInts, Mask


def enclosing(line: AnyInts, start_ns: AnyInts, dur_ns: AnyInts) -> NDArray[np.int32]:
    """The innermost event that is still open when each one starts, -1 for none; (events,).

    Args:
        line: Thread of every event, ascending; (events,).
        start_ns: Starts; ascending on each thread, longest first; (events,).
        dur_ns: Durations; (events,).
    """
    kernels = compiled.for_rows(len(line), "stepwhy.read.formats.xplane.kernels.events")
    if kernels is None:
        return _enclosing(_first_of_line(line), start_ns, start_ns + dur_ns)
    outer = np.empty(len(line), dtype=np.int32)
    kernels.enclose_events(
        np.ascontiguousarray(line, dtype=np.int32),
        np.ascontiguousarray(start_ns, dtype=np.int64),
        np.ascontiguousarray(dur_ns, dtype=np.int64),
        outer,
    )
    return outer


def nearest(outer: NDArray[np.int32], chosen: Mask) -> NDArray[np.int32]:
    """The innermost chosen event around each one, -1 for none; (events,).

    Args:
        outer: Result of `enclosing`.
        chosen: Mask of events; (events,).
    """
    rows = np.arange(len(outer), dtype=np.int32)
    found = inherit(outer, np.where(chosen, rows, np.int32(NULL)), NULL)[outer]
    found[outer == NULL] = NULL
    return found


def is_inside(outer: NDArray[np.int32], chosen: Mask) -> Mask:
    """Whether an event around each one is chosen; (events,).

    Args:
        outer: Result of `enclosing`.
        chosen: Mask of events; (events,).
    """
    if not chosen.any():
        return np.zeros(len(outer), dtype=np.bool_)
    found: Mask = inherit(outer, chosen.astype(np.int8)).view(np.bool_)[outer]
    found[outer == NULL] = False
    return found


def _first_of_line(line: AnyInts) -> AnyInts:
    """Row of the first event on the thread of each event; (events,)."""
    is_first = np.ones(len(line), dtype=np.bool_)
    is_first[1:] = line[1:] != line[:-1]
    first = np.flatnonzero(is_first)
    return np.repeat(first.astype(np.int32), np.diff(first, append=len(line)))


def _enclosing(first: AnyInts, start_ns: AnyInts, end_ns: AnyInts) -> NDArray[np.int32]:
    """Run `enclosing` with NumPy, for all events at once.

    The first candidate of an event is the one before it. A candidate that has ended is replaced by
    its own candidate, because all events between the two have ended as well. So candidates move
    further in every round.

    Args:
        first: Row of the first event on the thread of each event; (events,).
        start_ns: Starts; (events,).
        end_ns: Ends; (events,).
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
