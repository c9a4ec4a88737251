"""Names of tables and columns in older versions of the stored schema.

Version history (`schema.SCHEMA_VERSION`):

1. The first version. Tables and columns that were added to it later read as empty from files that
   lack them.
2. Renamed the table `handed` to `session_values`, and six columns (see `_RENAMED`).

A version that renames something adds one entry to `_RENAMED`; values did not change so far.
"""

from __future__ import annotations

import msgspec

from stepwhy.trace.schema import SCHEMA_VERSION


class _Renames(msgspec.Struct, frozen=True):
    """Names that a version changed.

    Args:
        tables: Name of a table to its older name.
        columns: Table and column to the column's older name.
    """

    tables: dict[str, str]
    columns: dict[tuple[str, str], str]


# By the newer version.
_RENAMED = {
    2: _Renames(
        tables={"session_values": "handed"},
        columns={
            ("session_values", "python_type"): "given",
            ("session_values", "graph_type"): "wanted",
            ("stages", "consumer"): "taker",
            ("samples", "package"): "leaf",
            ("executions", "runtime_op"): "written",
            ("nodes", "colocated_with"): "colocated",
        },
    )
}


def table_name(table: str, version: int) -> str:
    """Name of a table in files of a version.

    Args:
        table: Its name in the schema.
        version: Version of the file, at most `SCHEMA_VERSION`.

    Raises:
        KeyError: The version does not exist.
    """
    return _older_names(table, "", version)[0]


def column_name(table: str, column: str, version: int) -> str:
    """Name of a column in files of a version.

    Args:
        table: The table's name in the schema.
        column: The column's name in the schema.
        version: Version of the file, at most `SCHEMA_VERSION`.

    Raises:
        KeyError: The version does not exist.
    """
    return _older_names(table, column, version)[1]


def _older_names(table: str, column: str, version: int) -> tuple[str, str]:
    for newer in range(SCHEMA_VERSION, version, -1):
        renames = _RENAMED[newer]
        column = renames.columns.get((table, column), column)
        table = renames.tables.get(table, table)
    return table, column
