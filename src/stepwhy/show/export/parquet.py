"""A folder with one Parquet file per table, for data frames and SQL engines.

The tables are those of `stepwhy.show.export.arrow`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.base.errors import OutputError
from stepwhy.base.optional import needs_extra
from stepwhy.base.whole_files import output_folder
from stepwhy.show.export.arrow import arrow_table
from stepwhy.trace.schema import TABLES

if TYPE_CHECKING:
    from pathlib import Path

    from stepwhy.trace import Trace


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
                        pq.write_table(arrow_table(trace, table), file, compression="zstd")
    except OSError as error:
        raise OutputError(
            f"{path.name} cannot be written ({error.strerror or 'unknown error'})",
            "Choose a folder that does not exist yet, where you may write",
        ) from None
