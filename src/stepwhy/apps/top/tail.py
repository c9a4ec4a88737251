"""Read the end of a rotated log, and what is added to it.

Only the last steps matter for a job that is watched, so that a long log costs no more than a short
one. Lines may be skipped: those before the end at first, and the last ones of a file that was full
and is continued in a new one.
"""

from __future__ import annotations

import os

from stepwhy.base.regular_files import open_regular

# About twelve steps; more come with time.
_FIRST_BYTES = 2_000
# If more is added between two calls, only the end of it is read.
_MOST_BYTES = 64 << 10


class LogTail:
    """Follows one log from its end.

    Args:
        folder: Folder of the process.
        name: Of the log, without '.jsonl'.
    """

    def __init__(self, folder: str, name: str) -> None:
        self._path = f"{folder}/{name}.jsonl"
        self._inode = self._offset = 0
        self._is_first = True

    def new_lines(self) -> list[bytes]:
        """Whole lines at the end of the log that were not returned yet; [] if there is no log."""
        try:
            handle = open_regular(self._path)
        except OSError:
            return []
        try:
            return self._read(handle)
        except OSError:
            return []
        finally:
            os.close(handle)

    def _read(self, handle: int) -> list[bytes]:
        about = os.fstat(handle)
        if about.st_ino != self._inode or about.st_size < self._offset:
            self._inode, self._offset = about.st_ino, 0
        most = _FIRST_BYTES if self._is_first else _MOST_BYTES
        begin = max(self._offset, about.st_size - most)
        has_skipped = begin > self._offset
        data = os.pread(handle, about.st_size - begin, begin)
        whole, end, rest = data.rpartition(b"\n")
        if not end:
            return []
        self._is_first = False
        self._offset = begin + len(data) - len(rest)
        # After a skip, the first line is the end of one.
        return whole.split(b"\n")[has_skipped:]


__all__ = ["LogTail"]
