"""Files that another program may still be writing."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Iterator

_A_MOMENT_S = 10.0
_CHUNK = 1 << 20  # bytes copied at a time


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
        while chunk := file.read(_CHUNK):
            copy.write(chunk)
        copy.flush()
        yield copy


__all__ = ["at_rest"]
