"""Stored traces: a zip archive of one Parquet file per table, and `trace.json`.

Any Parquet reader opens the tables; column names, units and nulls are those of `schema`, and
`docs/reference/trace-schema.md` describes them. `trace.json` gives the version of the schema and
the tables that a file has. Files of older versions are read with the names of `versions`.
"""

from __future__ import annotations

import io
import json
import mmap
import zipfile
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from stepwhy.base.columns.growing import Growing, NarrowColumn
from stepwhy.base.columns.memory import give_back
from stepwhy.base.columns.narrow import constant
from stepwhy.base.columns.null import NULL
from stepwhy.base.columns.strings import strings_from
from stepwhy.base.errors import CorruptInputError, NewerFormatError, OutputError
from stepwhy.base.optional import needs_extra
from stepwhy.base.whole_files import output_file
from stepwhy.trace.header import header_of, health_of, in_short, meta_of, strings_of
from stepwhy.trace.integrity import check, check_bounds
from stepwhy.trace.model import Columns, Trace, empty_columns
from stepwhy.trace.schema import NARROW_COLUMNS, SCHEMA_VERSION, TABLES, Column, Table, columns_of
from stepwhy.trace.versions import column_name, table_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    Data = bytes | mmap.mmap

_HEADER = "trace.json"
_STRINGS = "strings.parquet"
# Tables of the oldest files, whose header does not list them.
_FIRST_TABLES = TABLES[: TABLES.index("events")]

# Exceptions on damaged archives; zipfile raises RuntimeError for encrypted members, and its
# subclass NotImplementedError for unknown versions of zip.
_DAMAGE = (
    zipfile.BadZipFile, zlib.error, EOFError, OSError, KeyError, ValueError, TypeError,
    RuntimeError,
)  # fmt: skip

# Limits of the compression ratio: times and ids hardly compress, so that a file beyond these was
# made to exhaust the memory.
_MOST_ROWS_PER_BYTE = 10
_MOST_BYTES_PER_BYTE = 300
# Small tables have a limit of rows besides, so that they are read in seconds. In recorded traces
# a slice takes at least three bytes.
_SMALL = 10_000_000  # bytes
_MOST_ROWS_OF_SMALL = 3 << 20
_ALWAYS_ALLOWED = 1 << 24  # bytes of decoded columns, or of strings
_LEAST_PER_SLICE = 25  # bytes of a slice in memory

_ROWS_AT_ONCE = 1 << 16  # of a column, while it is decoded
_BYTES_AT_ONCE = 1 << 20  # of a member, while its checksum is computed
# Local file header of a zip member: its fixed part, with the lengths of the name and the extra
# field that follow.
_BEFORE_MEMBER = 30  # bytes
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
                # All columns, in the types of the schema.
                columns = vars(trace.table(table))
                whole = {
                    c.name: columns[c.name].astype(c.dtype, copy=False) for c in columns_of(table)
                }
                archive.writestr(f"{table}.parquet", _parquet(whole))
    except OSError as error:
        raise OutputError(
            f"{path.name} cannot be written ({error.strerror or 'unknown error'})",
            "Choose a folder that you may write to and that has space",
        ) from None


def is_store(head: bytes) -> bool:
    """Whether a file begins like a stored trace: a zip archive with an uncompressed header."""
    is_compressed = head[8:10] != b"\x00\x00"
    if not head.startswith(b"PK\x03\x04") or is_compressed:
        return False
    # Other archives may begin with a file whose name only contains that of the header.
    length = int.from_bytes(head[_LENGTHS[0]], "little")
    return head[_BEFORE_MEMBER : _BEFORE_MEMBER + length] == _HEADER.encode()


def load(data: Data, origin: str, fits: Callable[[int], None] | None = None) -> Trace:
    """Read a stored trace.

    Args:
        data: The file, in memory or mapped.
        origin: Name of the file, for messages.
        fits: Called with the least number of bytes that the trace needs in memory; raises
            TooLargeError if that is too much.

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
        tables = {table: _table(table, stored, header) for table in TABLES}
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
    """The members of a zip archive.

    Args:
        data: The archive.

    Raises:
        BadZipFile: It is damaged.
        ValueError: Its members are larger than the archive.
    """

    def __init__(self, data: Data) -> None:
        import pyarrow as pa  # noqa: PLC0415 - see `_parquet`

        self._data = data
        self._zip = zipfile.ZipFile(pa.BufferReader(data))
        # Refuse an archive that expands: stepwhy does not compress members.
        if sum(member.file_size for member in self._zip.infolist()) > len(data):
            raise ValueError("its members are larger than itself")
        if min((member.header_offset for member in self._zip.infolist()), default=0):
            raise zipfile.BadZipFile("something precedes the archive")

    def read(self, name: str) -> memoryview | bytes:
        """The content of a member; uncompressed ones are not copied.

        Raises:
            KeyError: There is no such member.
            BadZipFile: The member is damaged.
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

    def release_pages(self) -> None:
        """Let the system drop the pages of a mapped file that were read so far."""
        if isinstance(self._data, mmap.mmap):
            with suppress(AttributeError, OSError):  # not on every system
                self._data.madvise(mmap.MADV_DONTNEED)


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
    """Open a Parquet file.

    Args:
        data: The file.
        repeated: Columns to read as dictionaries, because their values repeat.

    Raises:
        ValueError: The file is damaged, or beyond the limits of the compression ratio.
    """
    import pyarrow as pa  # noqa: PLC0415 - see `_parquet`
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        file = pq.ParquetFile(pa.BufferReader(data), read_dictionary=list(repeated))
    except pa.ArrowException as error:
        raise ValueError(str(error)) from None
    most_rows = _MOST_ROWS_PER_BYTE * len(data)
    if len(data) < _SMALL:
        most_rows = min(most_rows, _MOST_ROWS_OF_SMALL)
    if file.metadata.num_rows > most_rows:
        raise ValueError("it claims to hold more rows than it can")
    groups = (file.metadata.row_group(i) for i in range(file.metadata.num_row_groups))
    if sum(group.total_byte_size for group in groups) > _most_bytes(data):
        raise ValueError("it expands more than any trace")
    return file


def _most_bytes(data: memoryview | bytes) -> int:
    """Largest number of bytes that a Parquet file may expand to."""
    return _MOST_BYTES_PER_BYTE * len(data) + _ALWAYS_ALLOWED


def _texts(data: memoryview | bytes) -> Iterator[str]:
    """The strings of a trace.

    Args:
        data: The Parquet file of the strings.

    Raises:
        ValueError: A value is not a string, or the strings are too long in total. A damaged file
            may repeat one long string in many rows.
    """
    import pyarrow as pa  # noqa: PLC0415 - see `_parquet`

    left = _most_bytes(data)
    for chunk in _read_column(_opened(data, ["text"]), "text"):
        if not isinstance(chunk, pa.DictionaryArray):
            raise ValueError(f"its strings are {chunk.type}")  # noqa: TRY004 - of the file
        left -= chunk.dictionary.nbytes
        texts = strings_of(chunk.dictionary.to_pylist())
        for index in chunk.indices.to_pylist():
            left -= len(texts[index])
            if left < 0:
                raise ValueError("its strings are longer than it can hold")
            yield texts[index]


def _read_column(file: Any, name: str) -> Iterator[Any]:
    """One column of a Parquet file, in chunks.

    Raises:
        KeyError: The file has no such column.
        ValueError: The file is damaged.
    """
    import pyarrow as pa  # noqa: PLC0415 - see `_parquet`

    if name not in file.schema_arrow.names:
        raise KeyError(name)
    try:
        # With threads, each would allocate its own memory.
        for batch in file.iter_batches(_ROWS_AT_ONCE, columns=[name], use_threads=False):
            yield batch.column(name)
    except pa.ArrowException as error:
        raise ValueError(str(error)) from None


def _table(table: Table, archive: _Archive, header: dict[str, Any]) -> Columns:
    """A table of the archive; without rows if the file is older than the table."""
    import pyarrow as pa  # noqa: PLC0415 - see `_parquet`

    version = header["version"]
    stored_name = table_name(table, version)
    if stored_name not in header.get("tables", _FIRST_TABLES):
        return empty_columns(table)
    stored = _opened(archive.read(f"{stored_name}.parquet"))
    columns = {}
    for column in columns_of(table):
        archive.release_pages()
        columns[column.name] = _column(column, column_name(table, column.name, version), stored)
    pa.default_memory_pool().release_unused()
    return Columns(**columns)


def _column(column: Column, stored_name: str, stored: Any) -> NDArray[Any]:
    """The values of a column; nulls if the file is older than the column.

    Args:
        column: The column of the schema.
        stored_name: Its name in the file.
        stored: The Parquet file of the table.

    Raises:
        KeyError: The file lacks a column that is never null.
        ValueError: The values do not fit the schema.
    """
    null = 0 if column.null in {"", "0"} else NULL
    rows = stored.metadata.num_rows
    nulls = constant(null, rows, column.dtype)
    if column.null and stored_name not in stored.schema_arrow.names:
        return nulls
    is_narrow = column.table == "slices" and column.name in NARROW_COLUMNS
    held = NarrowColumn() if is_narrow else Growing(column.dtype)
    for chunk in _read_column(stored, stored_name):
        held.append(_values(column, chunk))
    if len(held) != rows:
        raise ValueError(f"{column.table}.{column.name} has {len(held)} rows, not {rows}")
    values = held.values()
    return nulls if (values == null).all() else values


def _values(column: Column, chunk: Any) -> NDArray[Any]:
    """A chunk of a column, in the type of the schema.

    Raises:
        ValueError: The values are not integers, or do not fit into the type.
    """
    values = chunk.to_numpy(zero_copy_only=False)
    if values.dtype.kind not in "iu":
        raise ValueError(f"{column.table}.{column.name} holds {values.dtype}")
    held: NDArray[Any] = values.astype(column.dtype, copy=False)
    if held.dtype != values.dtype and (held != values).any():
        raise ValueError(f"{column.table}.{column.name} does not fit into {column.dtype}")
    return held
