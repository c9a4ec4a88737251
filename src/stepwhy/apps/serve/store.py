"""Summaries of a served folder, kept in one SQLite file so that each run is read only once.

The file lies in the user's own cache, not in the served folder, which others may write to. It holds
nothing that cannot be read again: a file that is damaged, or of another version, is replaced.
Without a cache that only this user can write to, summaries are kept in memory.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from stepwhy.apps.serve.summaries import Summary
from stepwhy.base.columns.code_cache import user_cache
from stepwhy.base.columns.trusted import opened_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

# 1: first version. A new one replaces the files of all others.
VERSION = 1
_IN_MEMORY = ":memory:"
_TABLE = """
create table if not exists summaries (path blob primary key, signature text, summary blob)
"""
# It can be made again, so it need not survive a power failure.
_SETTINGS = (
    "pragma journal_mode = memory",
    "pragma synchronous = off",
    "pragma trusted_schema = 0",
)
_LONGEST_WAIT_S = 2.0


class Store:
    """The summaries of one folder.

    Args:
        file: The SQLite file; None to keep them in memory.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._connection = self._opened()

    def load(self) -> dict[str, tuple[str, Summary | None]]:
        """Signature and summary by path; a summary of None is of a file that is not listed."""
        try:
            rows = self._connection.execute("select * from summaries").fetchall()
            return {
                os.fsdecode(path): (mark, msgspec.json.decode(data, type=Summary | None))
                for path, mark, data in rows
            }
        except (sqlite3.Error, ValueError, TypeError):
            self._connection.close()
            self._connection = self._renewed()
            return {}

    def save(
        self, changed: Mapping[str, tuple[str, Summary | None]], gone: Iterable[str] = ()
    ) -> None:
        """Keep new and changed summaries. A failure is no error: they are read again next time.

        Args:
            changed: Signature and summary by path.
            gone: Paths that are not there any more.
        """
        rows = [
            (os.fsencode(path), mark, msgspec.json.encode(summary))
            for path, (mark, summary) in changed.items()
        ]
        with suppress(sqlite3.Error), self._connection:
            self._connection.executemany("insert or replace into summaries values (?, ?, ?)", rows)
            paths = [(os.fsencode(path),) for path in gone]
            self._connection.executemany("delete from summaries where path = ?", paths)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _opened(self) -> sqlite3.Connection:
        """Open the file; replace one that is damaged or of another version."""
        if self._file is None:
            return _connected(_IN_MEMORY)
        with suppress(sqlite3.DatabaseError, _OtherVersionError):
            return _connected(self._file)
        return self._renewed()

    def _renewed(self) -> sqlite3.Connection:
        """A new file in the place of the old one; in memory if that fails."""
        try:
            if self._file is not None:
                self._file.unlink(missing_ok=True)
                return _connected(self._file)
        except (OSError, sqlite3.Error, _OtherVersionError):
            self._file = None
        return _connected(_IN_MEMORY)


class _OtherVersionError(Exception):
    """Another version of stepwhy wrote the file."""


def _connected(file: Path | str) -> sqlite3.Connection:
    # Requests are answered in several threads, one at a time: see `Index`.
    connection = sqlite3.connect(file, timeout=_LONGEST_WAIT_S, check_same_thread=False)
    try:
        for setting in _SETTINGS:
            connection.execute(setting)
        version = _number(connection, "pragma user_version")
        is_new = not _number(connection, "select count(*) from sqlite_master")
        if not is_new and version != VERSION:
            raise _OtherVersionError  # noqa: TRY301
        with connection:
            connection.execute(_TABLE)
            connection.execute(f"pragma user_version = {VERSION}")
    except BaseException:
        connection.close()
        raise
    return connection


def _number(connection: sqlite3.Connection, query: str) -> int:
    row: Any = connection.execute(query).fetchone()
    return int(row[0])


def store_file(root: Path) -> Path | None:
    """The file for a folder in the user's cache; None if other users could write there.

    Args:
        root: The served folder.
    """
    try:
        folder = user_cache() / "serve"
        with opened_folder(folder, create=True):
            name = hashlib.sha256(os.fsencode(root.resolve())).hexdigest()[:24]
            return folder / f"{name}.sqlite"
    except OSError:
        return None
