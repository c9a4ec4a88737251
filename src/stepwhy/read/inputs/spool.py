"""Content of unknown size, kept in memory while it is small and in a temporary file beyond that."""

from __future__ import annotations

import io
import os
import shutil
from contextlib import suppress
from mmap import ACCESS_READ, mmap
from typing import BinaryIO, cast

from stepwhy.read.inputs.memory import check_fits

# Bytes between two checks of the available memory. From this size on, the content is in a temporary
# file, which is mapped like a plain one.
_UNWATCHED = 1 << 26
# Bytes of the disk left to other programs; a tenth of a small disk.
_LEAST_SPACE = 1 << 30


class Spool:
    """The content of a pipe or an archive, whose size is not known in advance.

    Args:
        name: Name for messages.
        times: Memory for explaining the content from a temporary file, as a multiple of its size.

    Attributes:
        size: Bytes added so far.
        file: The content so far, in memory or in a temporary file.
    """

    def __init__(self, name: str, times: float = 0) -> None:
        self.size = 0
        self.file: BinaryIO = io.BytesIO()
        self._name = name
        self._times = times
        self._check_at = _UNWATCHED

    def add(self, chunk: bytes) -> None:
        """Append some bytes.

        Raises:
            TooLargeError: If they fit neither into memory nor onto the disk.
        """
        try:
            self.file.write(chunk)
        except OSError:
            self._return_to_memory(chunk)
        self.size += len(chunk)
        if self.size > self._check_at:
            self._check_at = self.size + _UNWATCHED
            self._check()

    def _check(self) -> None:
        """Move to a temporary file once, and check that memory and disk space suffice."""
        if isinstance(self.file, io.BytesIO) and self.size < 2 * _UNWATCHED:
            self._leave_memory()
        elif not isinstance(self.file, io.BytesIO) and not _has_space(self.file):
            self._return_to_memory(b"")
        if isinstance(self.file, io.BytesIO):
            check_fits(self.size, self._name, held=self.size)
        else:
            check_fits(self.size, self._name, self._times)

    def _leave_memory(self) -> None:
        import tempfile  # noqa: PLC0415 - few inputs are as large

        with suppress(OSError):  # without space or permission, it stays in memory
            spilled = cast("BinaryIO", tempfile.TemporaryFile(prefix="stepwhy-"))  # noqa: SIM115 - stays open
            if _has_space(spilled):
                spilled.write(self.file.getbuffer())  # type: ignore[attr-defined]
                self.file = spilled

    def _return_to_memory(self, chunk: bytes) -> None:
        """Continue in memory, because the disk is full."""
        check_fits(self.size, self._name)
        spilled, self.file = self.file, io.BytesIO()
        spilled.seek(0)
        shutil.copyfileobj(spilled, self.file, _UNWATCHED)
        spilled.close()
        self.file.truncate(self.size)
        self.file.seek(self.size)
        self.file.write(chunk)

    def close(self) -> None:
        """Discard the content."""
        self.file.close()


def is_spooled(file: BinaryIO) -> bool:
    """Whether a file was created by a spool, not opened by its path."""
    return not isinstance(file, io.BufferedReader)


def content_of(file: BinaryIO) -> bytes | mmap:
    """Whole content of a file created by a spool; mapped if it is not in memory."""
    if isinstance(file, io.BytesIO):
        return file.getvalue()
    file.flush()
    return mmap(file.fileno(), 0, access=ACCESS_READ)


def _has_space(file: BinaryIO) -> bool:
    """Whether the disk of a file has space left for other programs."""
    try:
        disk = os.fstatvfs(file.fileno())
    except OSError:
        return True
    return disk.f_bavail * disk.f_frsize > min(_LEAST_SPACE, disk.f_blocks * disk.f_frsize // 10)
