"""The on-disk form of a trace: a zip of one Parquet file per table, and `trace.json`.

Any Parquet reader opens the tables; column names, units and nulls are those of `schema`.
`docs/reference/trace-schema.md` is generated from the same place.

Version history (`schema.SCHEMA_VERSION`): 1, the first. Files of version 1 may lack what was added
to it; `trace.json` names the tables that a file has.
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from stepwhy.errors import CorruptInputError, NewerFormatError, OutputError
from stepwhy.trace.header import header_of, health_of, in_short, meta_of, strings_of
from stepwhy.trace.integrity import check, check_bounds
from stepwhy.trace.model import Columns, Trace, empty_columns
from stepwhy.trace.schema import NULL, SCHEMA_VERSION, TABLES, Column, Table, columns_of

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

_HEADER = "trace.json"
_STRINGS = "strings.parquet"
# What files hold that do not name their tables.
_FIRST_TABLES = TABLES[: TABLES.index("events")]

# What reading a damaged archive raises: encrypted members are a RuntimeError, versions of zip that
# are not known its NotImplementedError.
_DAMAGE = (
    zipfile.BadZipFile, zlib.error, EOFError, OSError, KeyError, ValueError, TypeError,
    RuntimeError,
)  # fmt: skip

# Times and ids hardly compress; a file that says otherwise is there to fill the memory.
_MOST_ROWS_PER_BYTE = 10


def save(trace: Trace, path: Path) -> None:
    """Write a trace; the file appears complete or not at all.

    Raises:
        OutputError: The file cannot be written.
    """
    temporary = path.with_name(path.name + ".part")
    try:
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr(_HEADER, json.dumps(header_of(trace), indent=1))
            archive.writestr(_STRINGS, _parquet({"text": list(trace.strings)}))
            for table in TABLES:
                archive.writestr(f"{table}.parquet", _parquet(vars(trace.table(table))))
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise OutputError(
            f"{path.name} cannot be written ({error.strerror or 'unknown error'})",
            "Choose a folder that you may write to and that has space",
        ) from None


def is_store(head: bytes) -> bool:
    """Whether a file begins like a stored trace, not like any zip archive of a 'trace.json'."""
    is_compressed = head[8:10] != b"\x00\x00"
    return head.startswith(b"PK\x03\x04") and not is_compressed and _HEADER.encode() in head[:64]


def load(data: bytes, origin: str) -> Trace:
    """Read a stored trace.

    Args:
        data: The file.
        origin: Its name, for messages.

    Raises:
        NewerFormatError: A later version of stepwhy wrote it.
        CorruptInputError: It is damaged.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            _check_size(archive, len(data))
            header = json.loads(archive.read(_HEADER))
            _check_version(header, origin)
            held = header.get("tables", _FIRST_TABLES)
            tables = {
                t: _columns(t, archive.read(f"{t}.parquet")) if t in held else empty_columns(t)
                for t in TABLES
            }
            strings = strings_of(_read(_opened(archive.read(_STRINGS)), "text").to_pylist())
        trace = Trace(strings=strings, meta=meta_of(header), health=health_of(header), **tables)
        check(trace)
        check_bounds(trace)
    except _DAMAGE as error:
        raise CorruptInputError(
            f"{origin} is a damaged stored trace ({in_short(error)})",
            "Write it again from its source",
        ) from None
    return trace


def _check_size(archive: zipfile.ZipFile, size: int) -> None:
    """Refuse members that together are larger than the file: none of them is compressed."""
    if sum(member.file_size for member in archive.infolist()) > size:
        raise ValueError("its members are larger than itself")


def _check_version(header: dict[str, Any], origin: str) -> None:
    version = header["version"]
    if version > SCHEMA_VERSION:
        raise NewerFormatError(
            f"{origin} has trace version {version}, this stepwhy reads up to {SCHEMA_VERSION}",
            "Update stepwhy",
        )


def _parquet(columns: dict[str, Any]) -> bytes:
    import pyarrow as pa  # noqa: PLC0415 - a tenth of a second that most commands never need
    import pyarrow.parquet as pq  # noqa: PLC0415

    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer, compression="zstd")
    return buffer.getvalue()


def _opened(data: bytes) -> Any:
    """A Parquet file.

    Raises:
        ValueError: It is damaged.
    """
    import pyarrow as pa  # noqa: PLC0415 - see `_parquet`
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        file = pq.ParquetFile(io.BytesIO(data))
    except pa.ArrowException as error:
        raise ValueError(str(error)) from None
    if file.metadata.num_rows > _MOST_ROWS_PER_BYTE * len(data):
        raise ValueError("it claims to hold more rows than it can")
    return file


def _read(file: Any, name: str) -> Any:
    """One column of a Parquet file.

    Raises:
        KeyError: There is none of this name.
        ValueError: It is damaged.
    """
    import pyarrow as pa  # noqa: PLC0415 - see `_parquet`

    try:
        return file.read(columns=[name]).column(name)
    except pa.ArrowException as error:
        raise ValueError(str(error)) from None


def _columns(table: Table, data: bytes) -> Columns:
    # Column by column: all of a table would be held twice.
    import pyarrow as pa  # noqa: PLC0415 - see `_parquet`

    stored = _opened(data)
    columns = Columns(**{c.name: _column(c, stored) for c in columns_of(table)})
    pa.default_memory_pool().release_unused()
    return columns


def _column(column: Column, stored: Any) -> NDArray[Any]:
    """The values of a column; null where the file is from before there was such a column.

    One that holds nothing but nulls takes no memory.
    """
    null = np.asarray(0 if column.null in {"", "0"} else NULL, dtype=column.dtype)
    if column.null and column.name not in stored.schema_arrow.names:
        return np.broadcast_to(null, stored.metadata.num_rows)
    values = _read(stored, column.name).to_numpy()
    if values.dtype.kind not in "iu":
        raise ValueError(f"{column.table}.{column.name} holds {values.dtype}")
    held: NDArray[Any] = values.astype(column.dtype)
    if held.dtype != values.dtype and (held != values).any():
        raise ValueError(f"{column.table}.{column.name} does not fit into {column.dtype}")
    return np.broadcast_to(null, held.shape) if (held == null).all() else held
