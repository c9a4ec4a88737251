"""Open files in folders that others can write to.

Opening a pipe waits for a writer, reading a device may never end, and opening some devices starts
them. `open_regular` opens only regular files, and never waits.

Source: open(2), fifo(7).
"""

from __future__ import annotations

import errno
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

# If a pipe or device replaces the file after the check, opening it does not wait; a terminal does
# not become the controlling terminal.
_FLAGS = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def open_regular(
    path: str | Path, flags: int = os.O_RDONLY, mode: int = 0o666, *, dir_fd: int | None = None
) -> int:
    """Open a regular file.

    Args:
        path: The file.
        flags: As for `os.open`.
        mode: Permissions of a file that is created.
        dir_fd: Descriptor of the folder that a relative path starts from.

    Returns:
        Its descriptor, which no child process inherits.

    Raises:
        OSError: It cannot be opened; with `errno.EINVAL`, it is a folder, pipe, device or socket.
    """
    follow = not flags & (os.O_NOFOLLOW | os.O_EXCL)
    try:
        _check(os.stat(path, dir_fd=dir_fd, follow_symlinks=follow).st_mode)
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
    handle = os.open(path, flags | _FLAGS, mode, dir_fd=dir_fd)
    try:
        _check(os.fstat(handle).st_mode)
    except OSError:
        os.close(handle)
        raise
    return handle


def read_regular(path: str | Path, most: int) -> bytes:
    """The first bytes of a regular file.

    Args:
        path: The file.
        most: Maximum number of bytes to read.

    Raises:
        OSError: As for `open_regular`.
    """
    with open(open_regular(path), "rb") as file:
        return file.read(min(os.fstat(file.fileno()).st_size, most))


def _check(mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "Not a regular file")
