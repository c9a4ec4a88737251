"""Opening a trace: a file, or a pipe that the user named."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, BinaryIO, cast

from stepwhy.base.errors import NotAFileError, NotFoundError
from stepwhy.base.regular_files import open_regular
from stepwhy.read.inputs.within import not_a_file, open_within

if TYPE_CHECKING:
    from pathlib import Path


def open_input(path: Path, within: Path | None = None) -> BinaryIO:
    """Open a trace.

    A pipe is read to its end, however slow its writer is: into memory, or from 64 MiB on into a
    temporary file.

    Args:
        path: The file.
        within: The folder that the file was found in; it has to be a regular file, not a link out
            of the folder. None if the user named the file, which may then be a link or a pipe.

    Returns:
        A seekable file, positioned at its start; see `spool.is_spooled`.

    Raises:
        NotFoundError: If it cannot be opened, or no program writes to the pipe.
        NotAFileError: If it is a device, a socket or a folder; in a folder, also a pipe or a link
            out of it.
        TooLargeError: If there is not enough memory or disk space for the content of the pipe.
    """
    try:
        if within is not None:
            return open_within(within, path)
        if stat.S_ISFIFO(path.stat().st_mode):
            from stepwhy.read.inputs.pipes import read_pipe  # noqa: PLC0415 - few inputs are pipes

            return read_pipe(path)
        return cast("BinaryIO", os.fdopen(open_regular(path), "rb"))
    except OSError as error:
        raise unreadable(path, error) from None


def unreadable(path: Path, error: OSError) -> NotFoundError | NotAFileError:
    """The error for a trace that cannot be opened or read.

    Args:
        path: The trace.
        error: Error of the system call.
    """
    if error.errno == errno.EINVAL:
        return not_a_file(path)
    if error.errno == errno.ENXIO:
        return NotAFileError(f"{path.name} is a socket", "Pipe the trace, or give its file")
    return NotFoundError(
        f"{path.name} cannot be read ({error.strerror or 'unknown error'})",
        "Check the path and its permissions",
    )
