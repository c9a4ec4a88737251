"""Limits of the cost of reading a database.

In a crafted file several pages can refer to the same page, so that a small file has any number of
rows of any size. In a valid database every byte of every row is in the file once.

Source: "Defense Against The Dark Arts", "Limits In SQLite" and "Database File Format" of SQLite.
"""

from __future__ import annotations

import sqlite3
import time

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


__all__ = ["Limits"]
