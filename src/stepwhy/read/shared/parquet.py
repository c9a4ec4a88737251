"""Tables in Parquet files, as NumPy columns.

pyarrow is optional: a file is recognised without it, by the column names in the footer.

Source: Apache Parquet, "File Format"; the footer is Thrift, in which names are plain bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepwhy.base.errors import CorruptInputError, TooLargeError
from stepwhy.base.optional import needs_extra
from stepwhy.read.inputs.memory import check_fits
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepwhy.read.inputs.source import Source

MAGIC = b"PAR1"
"""First and last bytes of every Parquet file."""

_LONGEST_FOOTER = 1 << 24  # bytes
_LENGTH = 4  # bytes of the footer's length, before the magic bytes at the end
# Times differ from row to row, so that no encoding stores a row in less than a byte.
_LEAST_ROW_BYTES = 1
_CORRUPT = "Copy the file again, or write the table again"


class ParquetTable:
    """The columns of a table.

    Args:
        table: A `pyarrow.Table`.
        origin: Name of the file, for messages.
    """

    def __init__(self, table: Any, origin: str) -> None:
        self._table = table
        self._origin = origin

    def __len__(self) -> int:
        """Number of rows."""
        return int(self._table.num_rows)

    def integers(self, name: str) -> NDArray[np.int64]:
        """A column of integers; NULL in rows without a value; (rows,).

        Raises:
            CorruptInputError: The column does not hold 64-bit integers.
        """
        column = self._cast(name, "int64").fill_null(NULL)
        return np.asarray(column.to_numpy(), dtype=np.int64)

    def numbers(self, name: str) -> NDArray[np.float64]:
        """A column of numbers; NaN in rows without a value; (rows,).

        Raises:
            CorruptInputError: The column does not hold numbers.
        """
        column = self._cast(name, "float64").fill_null(float("nan"))
        return np.asarray(column.to_numpy(), dtype=np.float64)

    def texts(self, name: str) -> tuple[NDArray[np.int32], list[str]]:
        """A column of strings: the index of each row's string, NULL without one; the strings.

        Raises:
            CorruptInputError: The column does not hold strings.
        """
        encoded = self._cast(name, "string").combine_chunks().dictionary_encode()
        index = np.asarray(encoded.indices.fill_null(NULL).to_numpy(), dtype=np.int32)
        return index, encoded.dictionary.to_pylist()

    def _cast(self, name: str, kind: str) -> Any:
        import pyarrow as pa  # noqa: PLC0415 - optional, and a tenth of a second to import

        try:
            return self._table.column(name).cast(kind)
        except (pa.ArrowException, KeyError, ValueError) as error:
            raise CorruptInputError(
                f"the column '{name}' of {self._origin} holds no {kind} values", _CORRUPT
            ) from error


def has_columns(source: Source, names: Sequence[str]) -> bool:
    """Whether a file is a Parquet table whose footer has all of these names."""
    data = source.mapped
    if data[: len(MAGIC)] != MAGIC or data[-len(MAGIC) :] != MAGIC:
        return False
    end = len(data) - len(MAGIC) - _LENGTH
    length = int.from_bytes(data[end : end + _LENGTH], "little")
    footer = data[max(end - min(length, _LONGEST_FOOTER), 0) : max(end, 0)]
    return all(name.encode() in footer for name in names)


def parse_table(source: Source, names: Sequence[str]) -> ParquetTable:
    """Read some columns of a Parquet table.

    Args:
        source: The file.
        names: Names of the columns.

    Raises:
        CorruptInputError: The table is damaged, or lacks a column.
        MissingPackageError: pyarrow is not installed.
        TooLargeError: The table does not fit into memory.
    """
    with needs_extra("parquet", "Parquet tables"):
        import pyarrow as pa  # noqa: PLC0415 - optional, and a tenth of a second to import
        import pyarrow.parquet as pq  # noqa: PLC0415 - the same
    if source.mapped.find(MAGIC + MAGIC) >= 0:
        raise CorruptInputError(
            f"{source.origin} holds several Parquet files, one after the other",
            "Save each as a file of its own",
        )
    try:
        file = pq.ParquetFile(pa.BufferReader(pa.py_buffer(source.mapped)))
        _check_size(file.metadata, source)
        return ParquetTable(file.read(columns=list(names)), source.origin)
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise CorruptInputError(f"{source.origin} is a damaged Parquet table", _CORRUPT) from error


def _check_size(metadata: Any, source: Source) -> None:
    """Refuse a table that is larger than its file or the memory allows.

    Raises:
        TooLargeError: It is.
    """
    if metadata.num_rows > source.size // _LEAST_ROW_BYTES:
        raise TooLargeError(
            f"{source.origin} has {metadata.num_rows:,} rows in {source.size:,} bytes, which no "
            "table of events has",
            "Check where the file comes from",
        )
    groups = (metadata.row_group(i) for i in range(metadata.num_row_groups))
    check_fits(sum(max(group.total_byte_size, 0) for group in groups), source.origin)
