"""Read a rotated log as it grows, each line once.

`<name>.jsonl` is the newest file; a full one becomes `<name>-<number of its first line>.jsonl`
(see `record.core.process.folder`). The training may delete or replace the log: a file is read on
only if it is a regular one that continues what was read.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from stepwhy.base.regular_files import open_regular

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

# A file is rotated when it has half of this.
_MOST_BYTES = 32 << 20
# Files that are read at once: more are not kept by the writer.
_MOST_FILES = 16
# Of the first line, which has the time when it was logged. File systems use the inode of a deleted
# file again.
_HEAD_BYTES = 256


class _Identity(NamedTuple):
    """What tells a file from another one: its inode, and the start of its first line."""

    inode: int
    head: bytes


class LogFollower:
    """Follows one log from its first line.

    Args:
        folder: Folder of the process.
        name: Of the log, without '.jsonl'.

    Attributes:
        is_lost: Whether lines were deleted before they were read; nothing more is read then.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name
        self.is_lost = False
        self._first = self._lines = self._offset = 0
        self._identity: _Identity | None = None

    def new_lines(self) -> list[bytes]:
        """The whole lines that were added since the last call; [] if there is no log."""
        lines: list[bytes] = []
        for _ in range(_MOST_FILES):
            if self.is_lost or not self._read_into(lines):
                break
        return lines

    def _read_into(self, lines: list[bytes]) -> bool:
        """Read the rest of the current file; whether another one may follow."""
        full = self._folder / f"{self._name}-{self._first:012d}.jsonl"
        is_full = full.is_file()
        found = self._rest(full if is_full else self._folder / f"{self._name}.jsonl")
        if found is None:
            return False
        data, identity = found
        if self._identity not in {None, identity}:
            # Either it was renamed just now, or it was renamed and deleted.
            self.is_lost = is_full or not full.is_file()
            return True
        whole = data.rpartition(b"\n")[0]
        added = whole.split(b"\n") if whole else []
        lines += added
        self._lines += len(added)
        self._offset += len(whole) + 1 if whole else 0
        if added and self._identity is None:
            self._identity = identity
        if is_full:
            self._first, self._offset, self._identity = self._lines, 0, None
        return is_full

    def _rest(self, path: Path) -> tuple[bytes, _Identity] | None:
        """What follows the last line that was read, and the file; None without a file."""
        try:
            with os.fdopen(open_regular(path), "rb") as log:
                head = log.read(_HEAD_BYTES).partition(b"\n")[0]
                log.seek(self._offset)
                return log.read(_MOST_BYTES), _Identity(os.fstat(log.fileno()).st_ino, head)
        except OSError:
            return None
