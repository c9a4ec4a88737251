"""Opening a trace: a file, or a pipe that the user named."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, BinaryIO, cast

from stepwhy.errors import NotAFileError, NotFoundError
from stepwhy.inputs.within import not_a_file, open_within
from stepwhy.regular_files import open_regular

if TYPE_CHECKING:
    from pathlib import Path


def open_input(path: Path, within: Path | None = None) -> BinaryIO:
    """Open a trace.

    A pipe is read to its end, whether the writer is slow or not: into memory, and from 64 MiB on
    into a temporary file.

    Args:
        path: The file.
        within: The folder that the file was found in: it has to be a regular file, and no link out
            of the folder. None where the user named the file, which may be a link or a pipe.

    Returns:
        A file that can seek, positioned at its beginning; see `spool.is_spooled`.

    Raises:
        NotFoundError: It cannot be opened, or no program writes to the pipe.
        NotAFileError: It is a device, a socket or a folder; or, in a folder, a pipe or a link out.
        TooLargeError: There is not enough memory or space for what the pipe delivers.
    """
    try:
        if within is not None:
            return open_within(within, path)
        if stat.S_ISFIFO(path.stat().st_mode):
            from stepwhy.inputs.pipes import read_pipe  # noqa: PLC0415 - few inputs are pipes

            return read_pipe(path)
        return cast("BinaryIO", os.fdopen(open_regular(path), "rb"))
    except OSError as error:
        raise unreadable(path, error) from None


def unreadable(path: Path, error: OSError) -> NotFoundError | NotAFileError:
    """The error for a trace that cannot be opened or read.

    Args:
        path: The trace.
        error: What the system says.
    """
    if error.errno == errno.EINVAL:
        return not_a_file(path)
    if error.errno == errno.ENXIO:
        return NotAFileError(f"{path.name} is a socket", "Pipe the trace, or give its file")
    return NotFoundError(
        f"{path.name} cannot be read ({error.strerror or 'unknown error'})",
        "Check the path and its permissions",
    )


__all__ = ["open_input", "unreadable"]
