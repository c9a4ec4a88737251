"""A folder with one Parquet file per table, for data frames and SQL engines.

String indices are replaced by texts, enumeration values by names, and -1 by null. Columns and units
are those of the trace schema; a 'row' column numbers the rows, so that tables can be joined.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepwhy.errors import OutputError
from stepwhy.optional import needs_extra
from stepwhy.trace import NULL
from stepwhy.trace.integrity import ENUMS
from stepwhy.trace.schema import TABLES, columns_of
from stepwhy.whole_files import output_folder

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from stepwhy.trace import Trace
    from stepwhy.trace.schema import Column, Table


def write_parquet(trace: Trace, path: Path) -> None:
    """Write all tables that have rows to a folder, completely or not at all.

    Args:
        trace: The trace.
        path: The folder, which must not exist or be empty.

    Raises:
        OutputError: If the folder is not empty, or cannot be written.
        MissingPackageError: If pyarrow is not installed.
    """
    with needs_extra("parquet", "Parquet tables"):
        import pyarrow.parquet as pq  # noqa: PLC0415 - optional, and the import takes 0.1 s

    try:
        with output_folder(path) as create:
            for table in TABLES:
                if len(trace.table(table)):
                    with create(f"{table}.parquet") as file:
                        pq.write_table(_table(trace, table), file, compression="zstd")
    except OSError as error:
        raise OutputError(
            f"{path.name} cannot be written ({error.strerror or 'unknown error'})",
            "Choose a folder that does not exist yet, where you may write",
        ) from None


def _table(trace: Trace, table: Table) -> Any:
    import pyarrow as pa  # noqa: PLC0415 - see `write_parquet`

    rows = trace.table(table)
    columns = {"row": pa.array(np.arange(len(rows), dtype=np.int64))}
    for column in columns_of(table):
        columns[column.name] = _column(trace, column, getattr(rows, column.name))
    return pa.table(columns)


def _column(trace: Trace, column: Column, values: NDArray[Any]) -> Any:
    import pyarrow as pa  # noqa: PLC0415 - see `write_parquet`

    is_null = (values == NULL) if column.null == str(NULL) else np.zeros(len(values), dtype=bool)
    if column.unit == "string":
        return _texts(values, is_null, trace.strings)
    if column.unit in ENUMS:
        members = {int(m): m.name.lower() for m in ENUMS[column.unit]}
        names = [members.get(i, "") for i in range(max(members) + 1)]
        return _texts(values, is_null, names)
    return pa.array(values, mask=is_null)


def _texts(values: NDArray[Any], is_null: NDArray[np.bool_], texts: Any) -> Any:
    """A dictionary array of texts."""
    import pyarrow as pa  # noqa: PLC0415 - see `write_parquet`

    used, index = np.unique(np.where(is_null, 0, values), return_inverse=True)
    indices = pa.array(index.reshape(-1).astype(np.int32), mask=is_null)
    return pa.DictionaryArray.from_arrays(indices, pa.array([texts[int(u)] for u in used]))


__all__ = ["write_parquet"]
