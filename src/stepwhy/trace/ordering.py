"""Puts the rows of tables into the order that the schema requires."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.base.columns.chunks import take
from stepwhy.base.columns.narrow import is_constant
from stepwhy.base.columns.null import NULL
from stepwhy.base.columns.order import parents_first, stable_order
from stepwhy.trace.schema import COLUMNS, Table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from stepwhy.base.columns.order import Order
    from stepwhy.trace.model import Columns

_TIME_COLUMNS: dict[Table, str] = {
    "counters": "time_ns",
    "marks": "start_ns",
    "events": "start_ns",
    "visits": "start_ns",
    "levels": "time_ns",
    "allocations": "time_ns",
    "waits": "time_ns",
    "positions": "time_ns",
}
_SLICE_COLUMNS = tuple(c for c in COLUMNS if c.unit == "row of slices")


def order_all(tables: Mapping[Table, Columns]) -> None:
    """Sort every table that has an order, in place.

    Raises:
        ValueError: A table refers to a slice that does not exist.
    """
    slices = tables["slices"]
    order = parents_first(slices.start_ns, slices.dur_ns)
    if order is not None:
        reorder(slices, order)
    order_others(tables, order)


def order_others(tables: Mapping[Table, Columns], order: Order | None) -> None:
    """Sort all tables but the slices, and update their references to slices, in place.

    Args:
        tables: The tables; the slices are sorted already.
        order: Former row of every slice; None if no slice moved.

    Raises:
        ValueError: A table refers to a slice that does not exist.
    """
    count = len(tables["slices"])
    new_rows = None if order is None else _inverse(order)
    for column in _SLICE_COLUMNS:
        rows = getattr(tables[column.table], column.name)
        lowest = NULL if column.null else 0
        if ((rows < lowest) | (rows >= count)).any():
            raise ValueError(f"{column.table}.{column.name}: a row outside [{lowest}, {count})")
        if new_rows is not None and len(rows):
            moved = take(new_rows, rows)
            if column.null:
                moved = np.where(rows == NULL, NULL, moved)
            setattr(tables[column.table], column.name, moved)
    for table, name in _TIME_COLUMNS.items():
        times = getattr(tables[table], name)
        if (times[1:] < times[:-1]).any():
            reorder(tables[table], stable_order(times))


def reorder(columns: Columns, order: Order) -> None:
    """Put the rows of a table into another order, in place."""
    for name, values in vars(columns).items():
        if not is_constant(values):
            setattr(columns, name, take(values, order))


def _inverse(order: Order) -> NDArray[np.int32]:
    """New row of every row; (rows,)."""
    new_rows = np.empty(len(order), dtype=np.int32)
    new_rows[order] = np.arange(len(order), dtype=np.int32)
    return new_rows
