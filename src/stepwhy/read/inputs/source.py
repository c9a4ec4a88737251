"""One input as importers see it: its content, its origin, and the files beside it."""

from __future__ import annotations

import mmap
import os
import time
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from stepwhy.base.columns.memory import give_back
from stepwhy.base.errors import InputError, TooLargeError
from stepwhy.read.inputs.opening import open_input
from stepwhy.read.inputs.side_files import read_side_file

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterator

HEAD_BYTES = 65536
"""Number of bytes of the decompressed file that `recognise` may use."""

_WINDOW = 1 << 24  # bytes searched at a time

_A_MOMENT_S = 10.0
_COPIED_AT_ONCE = 1 << 20  # bytes copied at a time


class Source:
    """A decompressed input.

    Args:
        data: The whole file, decompressed; large content is mapped into memory. For a plain file,
            a function that reads it, called at first use.
        origin: Its name for messages; already redacted.
        path: The file, or None if the data is not from a file.
        truncated: The compressed stream ended early; `data` holds what could be decompressed.
        head: The start of `data`, if `data` is a function.
        within: The folder in which the file was found; files beside it are read only from this
            folder. By default the folder of the file.
        fits: Raises TooLargeError if that many bytes do not fit into memory; called before mapped
            content is copied into memory.
    """

    def __init__(
        self,
        data: bytes | mmap.mmap | Callable[[], bytes],
        origin: str,
        path: Path | None = None,
        truncated: bool = False,
        head: bytes = b"",
        *,
        within: Path | None = None,
        fits: Callable[[int], None] | None = None,
    ) -> None:
        self.origin = origin
        self.path = path
        self.truncated = truncated
        self._content = data
        self._head = head
        self._within = within
        self._fits = fits

    @cached_property
    def data(self) -> bytes:
        """The whole file, decompressed.

        Raises:
            InputError: If the file can no longer be read, or does not fit into memory.
        """
        if callable(self._content):
            return self._content()
        if self._fits is not None:
            self._fits(len(self._content))
        return self._content[:]

    @cached_property
    def mapped(self) -> bytes | mmap.mmap:
        """The whole file, decompressed, for slicing and searching; a plain file is mapped.

        Raises:
            InputError: See `data`.
        """
        if not callable(self._content):
            return self._content
        if self.path is None or "data" in self.__dict__:
            return self.data
        try:
            with open_input(self.path, self._within) as file, at_rest(file) as same:
                return mmap.mmap(same.fileno(), 0, access=mmap.ACCESS_READ)
        # The file system cannot map files, or has no space; the file is empty or gone.
        except (OSError, ValueError, InputError):
            return self.data

    @property
    def size(self) -> int:
        """Size of the decompressed file, bytes."""
        return len(self.mapped)

    @cached_property
    def head(self) -> bytes:
        """The first `HEAD_BYTES` bytes, without reading the rest."""
        return (self._head or self.mapped)[:HEAD_BYTES]

    def holds(self, pattern: re.Pattern[bytes]) -> bool:
        """Whether a pattern matches anywhere in the file; a mapped file is searched in windows.

        Args:
            pattern: Pattern whose matches are at most `HEAD_BYTES` bytes long.
        """
        data = self.mapped
        for begin in range(0, len(data), _WINDOW):
            end = min(begin + _WINDOW, len(data))
            if pattern.search(data, begin, min(end + HEAD_BYTES, len(data))):
                return True
            let_go(data, begin, end)
        return False

    def beside(self, name: str) -> bytes | None:
        """Content of another file in the same folder; None if there is none.

        Raises:
            InputError: If it is not a regular file, leads out of the folder, or is too large.
        """
        if self.path is None:
            return None
        folder = self.path.parent if self._within is None else self._within
        return read_side_file(folder, self.path.with_name(name))

    @contextmanager
    def as_file(self) -> Iterator[Path]:
        """A file with this content, for libraries that only open files.

        It is `path` if that is not compressed, otherwise a private copy that is removed afterwards.

        Raises:
            TooLargeError: If there is no space for a copy.
        """
        if self.path is not None and callable(self._content):
            yield self.path
            return
        from tempfile import TemporaryDirectory  # noqa: PLC0415 - few inputs need one

        with TemporaryDirectory(prefix="stepwhy-") as folder:
            copy = Path(folder) / "content"
            try:
                copy.write_bytes(self.mapped)
            except OSError:
                raise TooLargeError(
                    f"there is no space for the content of {self.origin}",
                    "Unpack it, or set TMPDIR to a folder with more space",
                ) from None
            yield copy


def let_go(data: bytes | mmap.mmap, begin: int, end: int) -> None:
    """Release the pages of a mapped file; reading them again brings them back.

    Args:
        data: The file; nothing happens if it is not mapped.
        begin: Offset of the first byte to release.
        end: Offset after the last one.
    """
    first, last = -(-begin // mmap.PAGESIZE), end // mmap.PAGESIZE
    if isinstance(data, mmap.mmap) and last > first:
        with suppress(AttributeError, OSError):  # not on every system
            data.madvise(mmap.MADV_DONTNEED, first * mmap.PAGESIZE, (last - first) * mmap.PAGESIZE)


@contextmanager
def at_rest(file: BinaryIO) -> Iterator[BinaryIO]:
    """The file; or a copy of it, if the file changed in the last seconds.

    If a writer truncates a file that is mapped into memory, reading the missing pages kills the
    process (SIGBUS).

    Raises:
        OSError: If there is no space for a copy.
    """
    age_s = time.time() - os.fstat(file.fileno()).st_mtime
    if age_s > _A_MOMENT_S:
        yield file
        return
    from tempfile import TemporaryFile  # noqa: PLC0415 - few inputs need one

    with TemporaryFile(prefix="stepwhy-") as copy:
        while chunk := file.read(_COPIED_AT_ONCE):
            copy.write(chunk)
        copy.flush()
        yield copy


__all__ = ["HEAD_BYTES", "Source", "at_rest", "give_back", "let_go"]
