"""Splits the trace of a file with several ranks into one trace per rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from stepwhy.columns.null import NULL
from stepwhy.trace.model import Columns, Trace
from stepwhy.trace.schema import TABLES, Table, columns_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.trace.schema import Column

SIGNAL = "ranks"
"""Signal of `Meta`: every process of the file is a rank, and its id the rank's number."""


def split_ranks(trace: Trace) -> list[Trace]:
    """The traces of all ranks, in their order; the trace itself if its processes are no ranks.

    Rows of no rank, and the health counters of the file, are in all of them.
    """
    if SIGNAL not in trace.meta.signals:
        return [trace]
    return [_of_rank(trace, int(rank)) for rank in np.unique(trace.tracks.process)]


def _of_rank(trace: Trace, rank: int) -> Trace:
    kept: dict[Table, NDArray[np.bool_]] = {"tracks": trace.tracks.process == rank}
    own = trace.tracks.device[kept["tracks"]]
    kept["devices"] = np.isin(np.arange(len(trace.devices)), own)
    for table in TABLES:
        if table not in kept:
            kept[table] = _rows_of(trace, table, kept)
    tables = {str(t): _moved(trace, t, kept) for t in TABLES}
    meta = replace(trace.meta, rank=rank, signals=trace.meta.signals - {SIGNAL})
    return Trace(strings=trace.strings, meta=meta, health=trace.health, **tables)


def _rows_of(trace: Trace, table: Table, kept: dict[Table, NDArray[np.bool_]]) -> NDArray[np.bool_]:
    """Mask of the rows whose references all point to kept rows."""
    rows = np.ones(len(trace.table(table)), dtype=bool)
    for column in columns_of(table):
        target = _target(column)
        if target is not None:
            values = getattr(trace.table(table), column.name)
            rows &= (values == NULL) | np.append(kept[target], False)[values]
    return rows


def _moved(trace: Trace, table: Table, kept: dict[Table, NDArray[np.bool_]]) -> Columns:
    """The kept rows of a table, with updated references to rows."""
    columns: dict[str, NDArray[Any]] = {}
    for column in columns_of(table):
        values = getattr(trace.table(table), column.name)[kept[table]]
        target = _target(column)
        if target is not None:
            places = np.append(np.cumsum(kept[target]) - 1, NULL)
            values = places[values].astype(column.dtype)
        columns[column.name] = values
    return Columns(**columns)


def _target(column: Column) -> Table | None:
    """The table that a column's values are rows of."""
    if not column.unit.startswith("row of "):
        return None
    return column.unit.removeprefix("row of ")  # type: ignore[return-value]


__all__ = ["SIGNAL", "split_ranks"]
