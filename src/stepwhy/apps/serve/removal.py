"""Delete a run directory, and nothing outside of the served folder."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from pathlib import Path

from stepwhy.apps.serve.scan import RUN_FILE
from stepwhy.base.errors import OutputError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def delete_run(root: Path, path: str) -> None:
    """Delete a run directory.

    Each folder on the way is opened relative to the one before, without following links, so what
    was checked is what is deleted.

    Args:
        root: The served folder.
        path: Path of the run directory below it.

    Raises:
        OutputError: It is no run directory below the folder, or cannot be deleted.
    """
    *parents, name = Path(path).parts or ("",)
    if not name or ".." in (*parents, name) or Path(path).is_absolute():
        raise OutputError(f"{path} is not a run below this folder", "Delete it by hand")
    try:
        _delete(root, parents, name)
    except OSError as error:
        raise OutputError(
            f"{path} cannot be deleted: {error.strerror}", "Check its permissions"
        ) from None


def _delete(root: Path, parents: list[str], name: str) -> None:
    folder = os.open(root.resolve(), _FOLDER)
    try:
        for part in parents:
            inner = os.open(part, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = inner
        _check_run(folder, name)
        shutil.rmtree(name, dir_fd=folder)
    finally:
        os.close(folder)


def _check_run(folder: int, name: str) -> None:
    """Check that a folder is a run directory, and no link to one."""
    run = os.open(name, _FOLDER, dir_fd=folder)
    try:
        status = os.stat(RUN_FILE, dir_fd=run, follow_symlinks=False)
    finally:
        os.close(run)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is not a run directory")
