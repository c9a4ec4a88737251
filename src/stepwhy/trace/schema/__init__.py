"""Schema of a trace: unit, null meaning and ordering of each column, as data.

Each table is stored as one array per column. `docs/reference/trace-schema.md` is generated from
these modules.

A change of names needs a new `SCHEMA_VERSION` and an entry in `versions`. A new table or a new
nullable column does not: it reads as empty from files that lack it.
"""

from __future__ import annotations

from typing import get_args

from stepwhy.trace.schema.column import Column, Table, Type
from stepwhy.trace.schema.graph import GRAPH
from stepwhy.trace.schema.run import RUN
from stepwhy.trace.schema.timeline import TIMELINE

# The history of versions is in `versions`.
SCHEMA_VERSION = 2

COLUMNS: tuple[Column, ...] = (*TIMELINE, *GRAPH, *RUN)

TABLES: tuple[Table, ...] = get_args(Table)


def columns_of(table: Table) -> tuple[Column, ...]:
    """The columns of one table, in order."""
    return tuple(c for c in COLUMNS if c.table == table)


def _may_be_narrow(column: Column) -> bool:
    # Times and sizes stay wide, because they are summed.
    is_index = column.unit == "string" or column.unit.startswith("row of ")
    return is_index or column.name in {"correlation", "sequence"}


NARROW_COLUMNS: frozenset[str] = frozenset(
    c.name for c in columns_of("slices") if _may_be_narrow(c)
)
"""Columns of slices whose arrays may have a narrower dtype than the schema's."""

__all__ = [
    "COLUMNS",
    "NARROW_COLUMNS",
    "SCHEMA_VERSION",
    "TABLES",
    "Column",
    "Table",
    "Type",
    "columns_of",
]
