"""SQLite databases of profilers, read as columns of integers and texts.

A database is opened read-only and as immutable, and only its real tables are queried: views and
virtual tables would run code of the file's author. A column of SQLite can hold values of any type,
so queries check the type of every value. `database_file` opens the file, and bounds the cost of
reading it.

Source: "Uniform Resource Identifiers", "Write-Ahead Logging" and "The File Format" of SQLite.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from stepwhy.base.columns.chunks import chunks
from stepwhy.base.errors import CorruptInputError
from stepwhy.base.units import format_bytes
from stepwhy.read.shared.database_file import (
    DAMAGE,
    MAGIC,
    Length,
    Limits,
    check_finished,
    length_of,
    limited_connection,
)
from stepwhy.read.shared.several_files import count_further

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from stepwhy.read.inputs.source import Source
    from stepwhy.trace import Health

ABSENT = -(2**63 - 1)
"""Value of an integer column in rows without an integer, or where the table lacks the column."""

_ROWS_AT_ONCE = 1 << 14
_MOST_TEXTS = 1 << 16
_EXPORT_AGAIN = "Export it again, or copy it again when the profiler has finished writing"


class Rows(msgspec.Struct, frozen=True):
    """Some columns of a table, equally long.

    Args:
        ints: Columns of integers, `ABSENT` in rows without one; (rows,).
        texts: Columns of texts, '' in rows without one.
        length: Number of rows.
    """

    ints: dict[str, NDArray[np.int64]]
    texts: dict[str, list[str]]
    length: int

    def __len__(self) -> int:
        """Number of rows."""
        return self.length

    def __getitem__(self, column: str) -> NDArray[np.int64]:
        """A column of integers; (rows,)."""
        return self.ints[column]

    def where(self, mask: NDArray[np.bool_]) -> Rows:
        """The rows for which a mask is true."""
        return self if mask.all() else self.take(np.flatnonzero(mask))

    def take(self, chosen: NDArray[np.int64]) -> Rows:
        """The rows at the given positions."""
        texts = {name: [column[i] for i in chosen] for name, column in self.texts.items()}
        return Rows({n: column[chosen] for n, column in self.ints.items()}, texts, len(chosen))

    def chunks(self) -> Iterator[Rows]:
        """Split the rows into chunks."""
        for chunk in chunks(self.length, _ROWS_AT_ONCE):
            ints = {name: column[chunk] for name, column in self.ints.items()}
            texts = {name: column[chunk] for name, column in self.texts.items()}
            yield Rows(ints, texts, chunk.stop - chunk.start)

    def with_columns(self, **ints: NDArray[np.int64]) -> Rows:
        """The same rows with replaced or additional columns of integers."""
        return Rows({**self.ints, **ints}, self.texts, self.length)


class Database:
    """An open database.

    Args:
        connection: The connection.
        limits: Limits of its queries.
        tables: Names of its real tables.
        is_whole: Whether the list of tables could be read to its end.
        length: Size of the file, as it is.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        limits: Limits,
        tables: frozenset[str],
        *,
        is_whole: bool,
        length: Length,
    ) -> None:
        self.tables = tables
        self._length = length
        self._connection = connection
        self._limits = limits
        self._damaged: set[str] = set() if is_whole else {"sqlite_master"}

    def read(
        self,
        table: str,
        ints: Sequence[str],
        texts: Sequence[str] = (),
        blobs: Sequence[str] = (),
        only: Mapping[str, Collection[int]] | None = None,
    ) -> Rows:
        """Read columns of a table; no rows if the table is missing.

        Args:
            table: The table.
            ints: Columns of integers.
            texts: Columns of texts.
            blobs: Columns of bytes, returned as texts of hexadecimal digits.
            only: Accepted values of integer columns; other rows are left out.
        """
        interned = _Texts()
        parts = [interned.intern(rows) for rows in self.chunks(table, ints, texts, blobs, only)]
        return Rows(
            {n: _concatenated([part.ints.pop(n) for part in parts]) for n in ints},
            {n: list(chain(*(p.texts.pop(n) for p in parts))) for n in (*texts, *blobs)},
            sum(map(len, parts)),
        )

    def chunks(
        self,
        table: str,
        ints: Sequence[str],
        texts: Sequence[str] = (),
        blobs: Sequence[str] = (),
        only: Mapping[str, Collection[int]] | None = None,
    ) -> Iterator[Rows]:
        """As `read`, in chunks of rows."""
        known = self._columns(table)
        expressions = [_integer(c, known) for c in ints]
        expressions += [
            f"CASE typeof(\"{c}\") WHEN 'text' THEN \"{c}\" ELSE '' END" if c in known else "''"
            for c in texts
        ]
        expressions += [
            f"CASE typeof(\"{c}\") WHEN 'blob' THEN hex(\"{c}\") ELSE '' END"
            if c in known
            else "''"
            for c in blobs
        ]
        conditions = [
            f"{_integer(c, known)} IN ({', '.join(map(str, values))})"
            for c, values in (only or {}).items()
        ]
        for part in self._select(table, expressions, conditions) if known else ():
            columns = list(zip(*part, strict=True))
            numbers = (np.asarray(values, dtype=np.int64) for values in columns[: len(ints)])
            strings = map(list, columns[len(ints) :])
            yield Rows(
                dict(zip(ints, numbers, strict=True)),
                dict(zip((*texts, *blobs), strings, strict=True)),
                len(part),
            )

    def count(self, table: str) -> int:
        """Number of rows of a table, 0 if it is missing."""
        # Not count(*): SQLite optimises it, and does not call the progress handler of the limits.
        counted = list(self._select(table, ["total(1)"])) if table in self.tables else []
        return int(counted[0][0][0]) if counted else 0

    def texts(self, table: str, key: str, value: str) -> dict[int, str]:
        """A table of numbered texts, as a mapping from number to text."""
        rows = self.read(table, [key], [value])
        return dict(zip(rows[key].tolist(), rows.texts[value], strict=True))

    def note_damage(self, health: Health) -> None:
        """Count the tables that could not be read to their ends, and what follows the database."""
        self._note_length(health)
        health.count(
            "table-damaged",
            "error",
            "Tables of the database are damaged: their rows after the damage are missing. "
            f"{_EXPORT_AGAIN}.",
            count=len(self._damaged),
            dropped=False,
        )

    def _note_length(self, health: Health) -> None:
        """Count a missing end, of which SQLite reads nothing, and another database at the end."""
        expected, size, rest = self._length
        health.count(
            "database-truncated",
            "error",
            f"The database ends early, after {format_bytes(size)} of {format_bytes(expected)}: "
            f"rows are missing. {_EXPORT_AGAIN}.",
            count=int(size < expected),
            dropped=False,
        )
        if rest == MAGIC:
            count_further(health, size - expected)

    def _columns(self, table: str) -> frozenset[str]:
        if table not in self.tables:
            return frozenset()
        try:
            # The name is a constant of stepwhy, never text of the file.
            rows = self._connection.execute(f'PRAGMA table_info("{table}")').fetchall()
        except DAMAGE:
            self._damaged.add(table)
            return frozenset()
        return frozenset(str(row[1]) for row in rows)

    def _select(
        self, table: str, expressions: Sequence[str], conditions: Sequence[str] = ()
    ) -> Iterator[list[tuple[Any, ...]]]:
        """Rows in chunks, up to the first damage in the table."""
        self._limits.begin()
        left = self._limits.size
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        try:
            # The names are constants of stepwhy, never text of the file.
            query = f'SELECT {", ".join(expressions)} FROM "{table}"{where}'  # noqa: S608
            cursor = self._connection.execute(query)
            while part := cursor.fetchmany(_ROWS_AT_ONCE):
                left -= len(part)
                if left < 0:
                    raise sqlite3.DatabaseError("more rows than the file can hold")
                yield part
        except DAMAGE:
            self._damaged.add(table)


class _Texts:
    """Keeps one copy of equal texts, unless there are many different ones."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def intern(self, rows: Rows) -> Rows:
        """The same rows, whose equal texts are one object."""
        texts = {name: self._intern_column(column) for name, column in rows.texts.items()}
        return Rows(rows.ints, texts, len(rows))

    def _intern_column(self, column: Sequence[str]) -> list[str]:
        known = self._known
        if len(known) > _MOST_TEXTS:
            known.clear()
        return [known.setdefault(text, text) for text in column]


def _concatenated(parts: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)


def _integer(column: str, known: Collection[str]) -> str:
    if column not in known:
        return str(ABSENT)
    return f'CASE typeof("{column}") WHEN \'integer\' THEN "{column}" ELSE {ABSENT} END'


def is_database(source: Source) -> bool:
    """Whether the file is an SQLite database."""
    return source.head.startswith(MAGIC)


@contextmanager
def open_database(source: Source) -> Iterator[Database]:
    """Open a database for reading.

    Raises:
        CorruptInputError: It is damaged, or a process is still writing it.
    """
    with source.as_file() as path:
        place = path.resolve()  # SQLite looks for a journal beside the target of a link
        limits = Limits(place.stat().st_size)
        if path == source.path:
            check_finished(source.origin, place, limits)
        with closing(limited_connection(place, limits, "mode=ro&immutable=1")) as connection:
            tables, is_whole = _tables(connection, source.origin)
            length = length_of(path)
            yield Database(connection, limits, tables, is_whole=is_whole, length=length)


def _tables(connection: sqlite3.Connection, origin: str) -> tuple[frozenset[str], bool]:
    """Names of the real tables, and whether the list is complete.

    Raises:
        CorruptInputError: The list of tables cannot be read.
    """
    try:
        return _names(connection), True
    except DAMAGE:
        # Makes SQLite read the existing part of a file that is shorter than its header says.
        connection.execute("PRAGMA writable_schema = ON")
    try:
        return _names(connection), False
    except DAMAGE:
        raise CorruptInputError(f"{origin} is a damaged SQLite database", _EXPORT_AGAIN) from None


def _names(connection: sqlite3.Connection) -> frozenset[str]:
    rows = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
    ).fetchall()
    return frozenset(str(row[0]) for row in rows)
