"""The on-disk form of a trace: a zip of one Parquet file per table, and `trace.json`.

Any Parquet reader opens the tables; column names, units and nulls are those of `schema`.
`docs/reference/trace-schema.md` is generated from the same place.

Version history (`schema.SCHEMA_VERSION`): 1, the first. Files of version 1 may lack what was added
to it; `trace.json` names the tables that a file has.
"""

from __future__ import annotations

import io
import json
import mmap
import zipfile
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from stepwhy.columns.memory import empty, give_back
from stepwhy.columns.narrow import is_constant, narrowed
from stepwhy.columns.null import NULL
from stepwhy.columns.strings import strings_from
from stepwhy.errors import CorruptInputError, NewerFormatError, OutputError
from stepwhy.optional import needs_extra
from stepwhy.trace.header import header_of, health_of, in_short, meta_of, strings_of
from stepwhy.trace.integrity import check, check_bounds
from stepwhy.trace.model import Columns, Trace, empty_columns
from stepwhy.trace.schema import NARROW_COLUMNS, SCHEMA_VERSION, TABLES, Column, Table, columns_of
from stepwhy.whole_files import output_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    Data = bytes | mmap.mmap

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
_MOST_BYTES_PER_BYTE = 300
# A table of fewer bytes holds at most so many rows, so that it is read in seconds: a slice of a
# recorded trace takes three bytes or more.
_SMALL = 10_000_000
_MOST_ROWS_OF_SMALL = 3 << 20
_ALWAYS_ALLOWED = 1 << 24  # bytes, of columns that are decoded, or of strings
# What the slices of a trace take at least in memory, bytes each.
_LEAST_PER_SLICE = 25

# What is held of a column, and of a member, beside the column itself.
_ROWS_AT_ONCE = 1 << 16
_BYTES_AT_ONCE = 1 << 20
# Lengths of what stands before a member: the fixed part, with those of its name and extra field.
_BEFORE_MEMBER = 30
_LENGTHS = slice(26, 28), slice(28, 30)


def save(trace: Trace, path: Path) -> None:
    """Write a trace; the file appears complete or not at all.

    Raises:
        OutputError: The file cannot be written.
        MissingPackageError: pyarrow is not installed.
    """
    with needs_extra("parquet", "Stored traces"):
        import pyarrow.parquet  # noqa: F401, PLC0415 - see `_parquet`
    try:
        with output_file(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr(_HEADER, json.dumps(header_of(trace), indent=1))
            archive.writestr(_STRINGS, _parquet({"text": list(trace.strings)}))
            for table in TABLES:
                archive.writestr(f"{table}.parquet", _parquet(_whole(trace, table)))
    except OSError as error:
        raise OutputError(
            f"{path.name} cannot be written ({error.strerror or 'unknown error'})",
            "Choose a folder that you may write to and that has space",
        ) from None


def _whole(trace: Trace, table: Table) -> dict[str, NDArray[Any]]:
    """The columns of a table as the schema says, however narrow they are in memory."""
    columns = vars(trace.table(table))
    return {c.name: columns[c.name].astype(c.dtype, copy=False) for c in columns_of(table)}


def is_store(head: bytes) -> bool:
    """Whether a file begins like a stored trace, not like any zip archive of a 'trace.json'."""
    is_compressed = head[8:10] != b"\x00\x00"
    return head.startswith(b"PK\x03\x04") and not is_compressed and _HEADER.encode() in head[:64]


def load(data: Data, origin: str, fits: Callable[[int], None] | None = None) -> Trace:
    """Read a stored trace.

    Args:
        data: The file; what is mapped is not held.
        origin: Its name, for messages.
        fits: Raises TooLargeError where a trace of so many bytes cannot be held in memory.

    Raises:
        NewerFormatError: A later version of stepwhy wrote it.
        CorruptInputError: It is damaged.
        TooLargeError: It does not fit into memory.
        MissingPackageError: pyarrow is not installed.
    """
    with needs_extra("parquet", "Stored traces"):
        import pyarrow.parquet  # noqa: F401, PLC0415 - see `_parquet`
    try:
        stored = _Archive(data)
        if fits is not None:
            fits(_LEAST_PER_SLICE * _opened(stored.read("slices.parquet")).metadata.num_rows)
        header = json.loads(bytes(stored.read(_HEADER)))
        _check_version(header, origin)
        held = header.get("tables", _FIRST_TABLES)
        tables = {t: _columns(t, stored) if t in held else empty_columns(t) for t in TABLES}
        strings = strings_from(_texts(stored.read(_STRINGS)))
        give_back()
        trace = Trace(strings=strings, meta=meta_of(header), health=health_of(header), **tables)
        check(trace)
        check_bounds(trace)
    except _DAMAGE as error:
        raise CorruptInputError(
            f"{origin} is a damaged stored trace ({in_short(error)})",
            "Write it again from its source",
        ) from None
    return trace


class _Archive:
    """The members of a file.

    Args:
        data: The file.

    Raises:
        BadZipFile: It is damaged.
        ValueError: Its members are larger than itself.
    """

    def __init__(self, data: Data) -> None:
        import pyarrow as pa  # noqa: PLC0415 - see `_parquet`

        self._data = data
        self._zip = zipfile.ZipFile(pa.BufferReader(data))
        _check_size(self._zip, len(data))

    def read(self, name: str) -> memoryview | bytes:
        """A member; without a copy where it is not compressed.

        Raises:
            KeyError: There is none of this name.
            BadZipFile: It is damaged.
        """
        member = self._zip.getinfo(name)
        with self._zip.open(member) as opened:
            if member.compress_type != zipfile.ZIP_STORED:
                return opened.read()
            while opened.read(_BYTES_AT_ONCE):
                pass  # compares the checksum at the end
        begin = member.header_offset + _BEFORE_MEMBER
        head = self._data[member.header_offset : begin]
        begin += sum(int.from_bytes(head[length], "little") for length in _LENGTHS)
        return memoryview(self._data)[begin : begin + member.file_size]

    def let_go(self) -> None:
        """Give what was read of a mapped file back to the system."""
        if isinstance(self._data, mmap.mmap):
            with suppress(AttributeError, OSError):  # not on every system
                self._data.madvise(mmap.MADV_DONTNEED)


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


def _opened(data: memoryview | bytes, repeated: Sequence[str] = ()) -> Any:
    """A Parquet file.

    Args:
        data: The file.
        repeated: Columns whose equal values are held once.

    Raises:
        ValueError: It is damaged.
    """
    import pyarrow as pa  # noqa: PLC0415 - see `_parquet`
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        file = pq.ParquetFile(pa.BufferReader(data), read_dictionary=list(repeated))
    except pa.ArrowException as error:
        raise ValueError(str(error)) from None
    if file.metadata.num_rows > _most_rows(data):
        raise ValueError("it claims to hold more rows than it can")
    groups = (file.metadata.row_group(i) for i in range(file.metadata.num_row_groups))
    if sum(group.total_byte_size for group in groups) > _most_bytes(data):
        raise ValueError("it expands as no trace does")
    return file


def _most_rows(data: memoryview | bytes) -> int:
    """How many rows a Parquet file may hold."""
    most = _MOST_ROWS_PER_BYTE * len(data)
    return min(most, _MOST_ROWS_OF_SMALL) if len(data) < _SMALL else most


def _most_bytes(data: memoryview | bytes) -> int:
    """How many bytes may come out of a Parquet file."""
    return _MOST_BYTES_PER_BYTE * len(data) + _ALWAYS_ALLOWED


def _texts(data: memoryview | bytes) -> Iterator[str]:
    """The strings of a trace.

    Args:
        data: The file of them, of which a long one may say that it is in very many rows.

    Raises:
        ValueError: Something else is among them, or they are too long together.
    """
    import pyarrow as pa  # noqa: PLC0415 - see `_parquet`

    left = _most_bytes(data)
    for part in _parts(_opened(data, ["text"]), "text"):
        if not isinstance(part, pa.DictionaryArray):
            raise ValueError(f"its strings are {part.type}")  # noqa: TRY004 - of the file
        left -= part.dictionary.nbytes
        texts = strings_of(part.dictionary.to_pylist())
        for index in part.indices.to_pylist():
            left -= len(texts[index])
            if left < 0:
                raise ValueError("its strings are longer than it can hold")
            yield texts[index]


def _parts(file: Any, name: str) -> Iterator[Any]:
    """One column of a Parquet file, some rows at a time.

    Raises:
        KeyError: There is none of this name.
        ValueError: It is damaged.
    """
    import pyarrow as pa  # noqa: PLC0415 - see `_parquet`

    if name not in file.schema_arrow.names:
        raise KeyError(name)
    try:
        # Threads would each keep memory of their own.
        for batch in file.iter_batches(_ROWS_AT_ONCE, columns=[name], use_threads=False):
            yield batch.column(name)
    except pa.ArrowException as error:
        raise ValueError(str(error)) from None


def _columns(table: Table, archive: _Archive) -> Columns:
    import pyarrow as pa  # noqa: PLC0415 - see `_parquet`

    stored = _opened(archive.read(f"{table}.parquet"))
    columns = {}
    for column in columns_of(table):
        archive.let_go()
        columns[column.name] = _column(column, stored)
    pa.default_memory_pool().release_unused()
    return Columns(**columns)


def _column(column: Column, stored: Any) -> NDArray[Any]:
    """The values of a column; null where the file is from before there was such a column.

    One that holds nothing but nulls takes no memory.
    """
    null = np.asarray(0 if column.null in {"", "0"} else NULL, dtype=column.dtype)
    rows, read = stored.metadata.num_rows, 0
    held: NDArray[Any] = np.broadcast_to(null, rows)
    if column.null and column.name not in stored.schema_arrow.names:
        return held
    is_code = column.table == "slices" and column.name in NARROW_COLUMNS
    for part in _parts(stored, column.name):
        values = _values(column, part)
        values = narrowed(values) if is_code else values
        if not is_constant(held) or (values != null).any():
            held = _writable(held, read, values.dtype)
            held[read : read + len(values)] = values
        read += len(values)
    if read != rows:
        raise ValueError(f"{column.table}.{column.name} has {read} rows, not {rows}")
    return held


def _writable(held: NDArray[Any], read: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """A column that takes values of a type, with those that it has.

    Args:
        held: The column; what repeats one value is not written to.
        read: How many values it has.
        dtype: Type of more.
    """
    if not is_constant(held) and held.dtype >= dtype:
        return held
    found = empty(len(held), dtype if is_constant(held) else max(held.dtype, dtype))
    found[:read] = held[:read]
    return found


def _values(column: Column, part: Any) -> NDArray[Any]:
    """Some values of a column.

    Raises:
        ValueError: They are others than such a column has.
    """
    values = part.to_numpy(zero_copy_only=False)
    if values.dtype.kind not in "iu":
        raise ValueError(f"{column.table}.{column.name} holds {values.dtype}")
    held: NDArray[Any] = values.astype(column.dtype, copy=False)
    if held.dtype != values.dtype and (held != values).any():
        raise ValueError(f"{column.table}.{column.name} does not fit into {column.dtype}")
    return held
