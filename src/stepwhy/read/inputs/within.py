"""Open regular files inside a folder, also through links that stay in the folder.

Tools create a link to the newest trace, so links are followed, but never out of the folder: that
could put a private file into a report that is shared.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, BinaryIO, cast

from stepwhy.base.errors import NotAFileError
from stepwhy.base.regular_files import open_regular
from stepwhy.read.inputs.kinds import is_folder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

# On Linux, a folder on the way needs no read permission.
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def open_within(folder: Path, path: Path) -> BinaryIO:
    """Open a regular file of a folder.

    Args:
        folder: The folder; its own path may lead through links.
        path: The file, in the folder or below it.

    Raises:
        NotAFileError: If it is a pipe, device, socket or folder, or a link out of the folder.
        OSError: If it cannot be opened.
    """
    root = folder.resolve()
    parts = check_within(root, path)
    try:
        return cast("BinaryIO", os.fdopen(_open_below(root, parts), "rb"))
    except OSError as error:
        if error.errno == errno.EINVAL:
            raise not_a_file(path) from None
        raise


def check_within(folder: Path, path: Path) -> tuple[str, ...]:
    """Check that a path does not lead out of a folder.

    Returns:
        The components of the path below that folder, without links.

    Raises:
        NotAFileError: If it leads out of the folder.
        OSError: If there is nothing.
    """
    try:
        return path.resolve(strict=True).relative_to(folder.resolve()).parts
    except RuntimeError:  # links in a circle, before Python 3.13
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
    except ValueError:
        raise NotAFileError(
            f"{path.name} is a link out of {folder.name or folder}",
            "Replace the link by a copy, or pass the file that it points to",
        ) from None


def not_a_file(path: Path) -> NotAFileError:
    """The error for a folder, pipe, device or socket where a file is expected."""
    return NotAFileError(
        f"{path.name} is not a regular file but {_kind(path)}", "Give the trace file itself"
    )


def _kind(path: Path) -> str:
    """Kind of the file at a path, for messages."""
    if is_folder(path):
        return "a folder"
    if path.is_fifo():
        return "a pipe"
    return "a socket" if path.is_socket() else "a device"


def _open_below(root: Path, parts: Sequence[str]) -> int:
    """Open a file by its path from a folder, without following links that were added meanwhile."""
    folder = os.open(root, _FOLDER)
    try:
        for part in parts[:-1]:
            inner = os.open(part, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = inner
        return open_regular(parts[-1] if parts else ".", os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder)
    finally:
        os.close(folder)
