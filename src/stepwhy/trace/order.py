"""Puts the rows of tables into the order that the schema promises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from stepwhy import native
from stepwhy.trace.schema import COLUMNS, Table
from stepwhy.trace.sorting import stable_order

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from stepwhy.native import Kernel
    from stepwhy.trace.model import Columns

    Block = NDArray[Any]
    Order = NDArray[np.signedinteger[Any]]

Value = TypeVar("Value", bound=np.generic)

_BY_TIME: dict[Table, str] = {
    "counters": "time_ns",
    "marks": "start_ns",
    "events": "start_ns",
    "levels": "time_ns",
    "allocations": "time_ns",
}
# Columns that hold rows of slices.
_OF_SLICES = tuple((c.table, c.name) for c in COLUMNS if c.unit == "row of slices")

# Slices from which on kernels are worth it even where loading them takes 40 ms: without a linker.
_MANY = 1 << 19
# Rows that are ordered by 32 bits, and runs of them that are merged two at a time.
_MOST_ROWS = 1 << 31
_MOST_RUNS = 1 << 9
# Rows that are looked up at a time.
_PIECE = 1 << 16


def order_all(tables: Mapping[Table, Columns]) -> None:
    """Put every table that has an order into it, in place.

    Raises:
        ValueError: A table refers to a slice that is not there.
    """
    slices = tables["slices"]
    order = parents_first(slices.start_ns, slices.dur_ns)
    if order is not None:
        reorder(slices, order)
    order_others(tables, order)


def order_others(tables: Mapping[Table, Columns], order: Order | None) -> None:
    """The same for all tables but the slices, which have been put into an order.

    Raises:
        ValueError: A table refers to a slice that is not there.
    """
    count = len(tables["slices"])
    places: NDArray[np.int32] | None = None
    for table, name in _OF_SLICES:
        rows = getattr(tables[table], name)
        if ((rows < 0) | (rows >= count)).any():
            # Indexing would take -1 for the last slice.
            raise ValueError(f"{table}.{name}: a row outside [0, {count})")
        if order is not None and len(rows):
            places = _places(order) if places is None else places
            setattr(tables[table], name, taken(places, rows))
    del places
    for table, column in _BY_TIME.items():
        times = getattr(tables[table], column)
        if (times[1:] < times[:-1]).any():
            reorder(tables[table], stable_order(times))


def reorder(columns: Columns, order: Order) -> None:
    """Put the rows of a table into another order, in place."""
    for name, values in vars(columns).items():
        if values.strides != (0,):  # else all rows are alike
            setattr(columns, name, taken(values, order))


def taken(values: NDArray[Value], rows: Order) -> NDArray[Value]:
    """As `values[rows]` of rows from 0 on; for others any value, if there is one at all.

    NumPy looks up with 64 bits: these are not held for all rows at once.
    """
    found = np.empty(len(rows), dtype=values.dtype)
    for first in range(0, len(rows), _PIECE):
        some = slice(first, first + _PIECE)
        # With this mode, NumPy writes where it is told to.
        np.take(values, rows[some], out=found[some], mode="clip")
    return found


def _places(order: Order) -> NDArray[np.int32]:
    """The new row of every row that was put into an order; (rows,)."""
    places = np.empty(len(order), dtype=np.int32)
    for first in range(0, len(order), _PIECE):
        some = order[first : first + _PIECE]
        places[some] = np.arange(first, first + len(some), dtype=np.int32)
    return places


def parents_first(start_ns: Block, dur_ns: Block) -> Order | None:
    """The order by start, then longest first, of equals the first one first; None in that order.

    Files are runs in that order, one for each thread or a few more.

    Args:
        start_ns: Starts; (rows,).
        dur_ns: Durations; (rows,).
    """
    same = start_ns[1:] == start_ns[:-1]
    behind = start_ns[1:] < start_ns[:-1]
    behind |= same & (dur_ns[1:] > dur_ns[:-1])
    breaks = np.flatnonzero(behind) + 1
    del same, behind
    if not len(breaks):
        return None
    few = len(breaks) < _MOST_RUNS and _MANY <= len(start_ns) < _MOST_ROWS
    merge = native.kernel("merge_rows") if few else None
    if merge is not None:
        return _merged(merge, start_ns, dur_ns, [0, *breaks.tolist(), len(start_ns)])
    return _sorted(start_ns, dur_ns)


def _sorted(start_ns: Block, dur_ns: Block) -> Order:
    """As `parents_first`, of any rows."""
    order = stable_order(start_ns)
    first = 0
    while first < len(order):
        piece = slice(first, _behind(start_ns, order, min(first + _PIECE, len(order))))
        rows = order[piece]
        starts, durations = start_ns[rows], dur_ns[rows]
        same = starts[1:] == starts[:-1]
        if (same & (durations[1:] > durations[:-1])).any():
            equal = np.flatnonzero(np.append(same, False) | np.append(False, same))
            longest_first = np.lexsort((-durations[equal], starts[equal]))
            order[piece][equal] = rows[equal][longest_first]
        first = piece.stop
    return order


def _behind(start_ns: Block, order: Order, end: int) -> int:
    """The first place from one on that has another start than the place before it."""
    last = start_ns[order[end - 1]]
    while end < len(order):
        same = start_ns[order[end : end + _PIECE]] == last
        if not same.all():
            return end + int(same.argmin())
        end += len(same)
    return end


def _merged(merge: Kernel, start_ns: Block, dur_ns: Block, bounds: list[int]) -> Order:
    """As `parents_first`, of rows in few runs: the two neighbours that are shortest, and so on.

    Args:
        merge: The kernel `merge_rows`.
        start_ns: Starts; (rows,).
        dur_ns: Durations; (rows,).
        bounds: Where each run begins, and the number of rows.
    """
    starts, durations = np.ascontiguousarray(start_ns), np.ascontiguousarray(dur_ns)
    order = np.arange(len(starts), dtype=np.int32)
    spare = np.empty(len(starts) // 2, dtype=np.int32)
    addresses = [array.ctypes.data for array in (starts, durations, order, spare)]
    while len(bounds) > 2:
        place = min(range(len(bounds) - 2), key=lambda p: bounds[p + 2] - bounds[p])
        fields = np.array([*addresses, *bounds[place : place + 3]], dtype=np.int64)
        merge(fields.ctypes.data)
        del bounds[place + 1]
    return order


__all__ = ["order_all", "order_others", "parents_first", "reorder", "taken"]
