"""Files that are written while they are read: a page that is cut off must not end the process."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Iterator

_A_MOMENT_S = 10.0
_PIECE = 1 << 20  # bytes that are copied at a time


@contextmanager
def at_rest(file: BinaryIO) -> Iterator[BinaryIO]:
    """The file, or a copy of it where it changed a moment ago.

    Who writes it, or copies it here, may well begin anew. Of a mapped file, pages that are cut off
    cannot be read: the system ends a process that tries (SIGBUS).

    Raises:
        OSError: There is no space for a copy.
    """
    age_s = time.time() - os.fstat(file.fileno()).st_mtime
    if age_s > _A_MOMENT_S:
        yield file
        return
    from tempfile import TemporaryFile  # noqa: PLC0415 - few inputs need one

    with TemporaryFile(prefix="stepwhy-") as copy:
        while piece := file.read(_PIECE):
            copy.write(piece)
        copy.flush()
        yield copy


__all__ = ["at_rest"]
