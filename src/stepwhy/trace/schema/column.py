"""One column of a table of a trace: its type, unit and meaning."""

from __future__ import annotations

from typing import Literal

import msgspec

Table = Literal[
    "devices",
    "tracks",
    "slices",
    "flows",
    "counters",
    "nodes",
    "copies",
    "marks",
    "samples",
    "visits",
    "events",
    "levels",
    "stages",
    "executions",
    "session_values",
    "allocations",
    "waits",
    "collectives",
    "operands",
    "line_times",
    "instruction_scopes",
    "rewrites",
    "step_ops",
    "index_inputs",
    "discards",
    "table_updates",
    "argument_uses",
    "collective_calls",
    "positions",
]
Type = Literal["int8", "int32", "int64", "float64"]


class Column(msgspec.Struct, frozen=True):
    """One column of one table.

    Args:
        table: The table.
        name: The column's name.
        dtype: NumPy dtype of its array; columns in `NARROW_COLUMNS` may use a narrower one.
        unit: 'ns', 'bytes', 'string' (index into `Trace.strings`), 'Kind', '' ...
        null: Value that means 'not recorded'; '' if the column is never null.
        help: One sentence.
    """

    table: Table
    name: str
    dtype: Type
    unit: str
    null: str
    help: str


NO_STRING = "-1"
"""Null value of a column of strings."""


def string(table: Table, name: str, description: str, *, null: str = "") -> Column:
    """A column of indices into `Trace.strings`."""
    return Column(table, name, "int32", "string", null, description)


def nanoseconds(table: Table, name: str, description: str, *, null: str = "") -> Column:
    """A column of times or durations."""
    return Column(table, name, "int64", "ns", null, description)


def flag(table: Table, name: str, description: str, *, null: str = "") -> Column:
    """A column of yes or no."""
    return Column(table, name, "int8", "0 or 1", null, description)
