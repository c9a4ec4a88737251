"""The file of a database: whether it is whole and finished, and how much reading it may cost.

In a crafted file several pages can refer to the same page, so that a small file has any number of
rows of any size. In a valid database every byte of every row is in the file once.

Source: "Defense Against The Dark Arts", "Limits In SQLite", "Uniform Resource Identifiers",
"Write-Ahead Logging" and "Database File Format" of SQLite.
"""

from __future__ import annotations

import io
import sqlite3
import stat
import struct
import time
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from stepwhy.base.errors import CorruptInputError
from stepwhy.read.inputs.opening import open_input

if TYPE_CHECKING:
    from pathlib import Path

MAGIC = b"SQLite format 3\x00"
DAMAGE = (sqlite3.Error, UnicodeDecodeError)
"""Errors about damage: SQLite quotes damaged names in its messages, which need not be UTF-8."""

# Byte of the header: 1 if the database uses a rollback journal, 2 for a write-ahead log.
_WRITE_VERSION = 18
_JOURNAL = b"\x01"
# Bytes per page, the number of changes and of pages, and up to which change that was counted.
_SIZES = struct.Struct(">16xH6xII60xI4x")
_HEADER = _SIZES.size

# Instructions of SQLite's virtual machine between two checks of the budget: about a millisecond.
_INSTRUCTIONS_AT_ONCE = 100_000
# A row takes at least six bytes, and reading 30 of its columns 400 instructions.
_INSTRUCTIONS_PER_BYTE = 100
_MORE_INSTRUCTIONS = 2_000_000
# CPU time of all queries together: ten times that of reading a large database.
_S_PER_BYTE = 1e-6
_MORE_S = 10.0
# A byte becomes two hexadecimal digits.
_TEXT_PER_BYTE = 2
_MORE_TEXT = 1 << 20


class Limits:
    """Limits of the queries of a database, in proportion to its size.

    Args:
        size: Size of the file, bytes.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._steps_left = 0
        self._text_left = 0
        self._end_s = time.thread_time() + _MORE_S + _S_PER_BYTE * size

    def apply(self, connection: sqlite3.Connection) -> None:
        """Set the limits of a connection; a query beyond them raises `sqlite3.Error`."""
        longest = _TEXT_PER_BYTE * self.size + _MORE_TEXT
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, min(longest, 10**9))
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        connection.text_factory = self._text
        connection.set_progress_handler(self._is_over, _INSTRUCTIONS_AT_ONCE)
        self.begin()

    def begin(self) -> None:
        """Start the budget of a new query."""
        allowed = _INSTRUCTIONS_PER_BYTE * self.size + _MORE_INSTRUCTIONS
        self._steps_left = allowed // _INSTRUCTIONS_AT_ONCE
        self._text_left = _TEXT_PER_BYTE * self.size + _MORE_TEXT

    def _is_over(self) -> bool:
        self._steps_left -= 1
        return self._steps_left < 0 or time.thread_time() > self._end_s

    def _text(self, raw: bytes) -> str:
        self._text_left -= len(raw)
        if self._text_left < 0:
            raise sqlite3.DatabaseError("more text than the file can hold")
        return raw.decode("utf-8", "replace")


class Length(NamedTuple):
    """Size of a database file.

    Args:
        expected: Bytes that the header tells; 0 if it does not.
        size: Bytes of the file.
        rest: What begins where the database should end.
    """

    expected: int
    size: int
    rest: bytes


def length_of(path: Path) -> Length:
    """Size of a database, as its header tells it and as it is."""
    with open_input(path) as file:
        head = file.read(_HEADER)
        size = file.seek(0, io.SEEK_END)
        expected = _length_in_header(head) if len(head) == _HEADER else 0
        file.seek(expected)
        return Length(expected, size, file.read(len(MAGIC)) if 0 < expected < size else b"")


def _length_in_header(head: bytes) -> int:
    """Size of a database, bytes; 0 if it was last written by a release that does not tell it."""
    page_bytes, changes, pages, valid_for = _SIZES.unpack(head)
    largest = 1 << 16  # which two bytes cannot hold, so it is written as 1
    size: int = pages * (largest if page_bytes == 1 else page_bytes)
    return size if changes == valid_for else 0


def check_finished(origin: str, path: Path, limits: Limits) -> None:
    """Refuse a database that is still being written.

    Raises:
        CorruptInputError: There is a journal or log beside it, or a process has locked it.
    """
    beside = next((e for e in ("-wal", "-journal") if _holds(path, e)), "")
    if beside:
        raise CorruptInputError(
            f"{origin} is a database that is still being written: a part of it is in "
            f"{origin}{beside}",
            "Wait until the profiler has finished, or export it again",
        )
    if _is_locked(path, limits):
        raise CorruptInputError(
            f"{origin} is a database that another process is writing",
            "Wait until the profiler has finished",
        )


def _holds(path: Path, ending: str) -> bool:
    """Whether the file with that ending beside a file is not empty; links and pipes count."""
    try:
        found = path.with_name(f"{path.name}{ending}").lstat()
    except OSError:
        return False
    return found.st_size > 0 or not stat.S_ISREG(found.st_mode)


def _is_locked(path: Path, limits: Limits) -> bool:
    """Whether a process has locked the database; with a write-ahead log, writers take no lock."""
    with open_input(path) as file:
        head = file.read(_WRITE_VERSION + 1)
    if head[_WRITE_VERSION:] != _JOURNAL:
        return False  # opening it without `immutable` would create files beside it
    try:
        with closing(limited_connection(path, limits, "mode=ro")) as connection:
            connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall()
    except DAMAGE as error:
        return "locked" in str(error)  # reading reports the other errors
    return False


def limited_connection(path: Path, limits: Limits, how: str) -> sqlite3.Connection:
    """Connect to a database, without running code that its schema contains.

    Args:
        path: The database.
        limits: Limits of its queries.
        how: Query parameters of the SQLite URI.
    """
    connection = sqlite3.connect(f"{path.as_uri()}?{how}", uri=True, timeout=0)
    limits.apply(connection)
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    return connection
