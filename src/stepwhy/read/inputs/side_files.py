"""The small files beside a trace and in a run directory."""

from __future__ import annotations

import os
import zlib
from typing import TYPE_CHECKING

from stepwhy.base.errors import NotFoundError, TooLargeError
from stepwhy.base.units import format_bytes
from stepwhy.read.inputs.memory import ANY_SIZE, check_fits
from stepwhy.read.inputs.within import open_within

if TYPE_CHECKING:
    from pathlib import Path
    from typing import BinaryIO

MOST_BYTES = 1 << 28
"""Maximum size of a file, bytes. A graph with its constants takes tens of megabytes, and
`stepwhy run` keeps at most 128 MiB of a log."""

MOST_RECORD_BYTES = 1 << 24
"""Maximum size of a file with a single record, such as `run.json`, bytes; they take kilobytes."""

_GZIP = 16 + zlib.MAX_WBITS
_SMALL = 1 << 24  # bytes; fits into memory without a check


def read_side_file(folder: Path, path: Path, most: int = MOST_BYTES) -> bytes | None:
    """Read a file that belongs to a trace or a run directory.

    Args:
        folder: Folder of the trace or the run; links must not lead out of it.
        path: The file, in that folder or below it.
        most: Maximum size, bytes; ignored if `STEPWHY_ANY_SIZE=1` is set.

    Returns:
        The content; None if there is no such file.

    Raises:
        NotAFileError: If it is a pipe, device, socket or folder, or a link out of the folder.
        TooLargeError: If it is too large, or does not fit into memory.
        NotFoundError: If it cannot be read.
    """
    try:
        with open_within(folder, path) as file:
            return _content(file, path.name, most)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise NotFoundError(
            f"{path.name} cannot be read ({error.strerror or 'unknown error'})",
            "Check its permissions",
        ) from None


def decompressed(data: bytes, most: int) -> bytes:
    """The content of a file that gzip has compressed; cut off if it is larger or incomplete.

    Args:
        data: The file.
        most: Maximum size of its content, bytes.

    Raises:
        zlib.error: It is damaged.
    """
    return zlib.decompressobj(_GZIP).decompress(data, most)


def _content(file: BinaryIO, name: str, most: int) -> bytes:
    size = os.fstat(file.fileno()).st_size
    if size > most and os.environ.get(ANY_SIZE) != "1":
        raise TooLargeError(
            f"{name} holds {format_bytes(size)}; the limit for such files is {format_bytes(most)}",
            f"Set {ANY_SIZE}=1 to read it anyway",
        )
    if size > _SMALL:
        check_fits(size, name)
    return file.read(size)
