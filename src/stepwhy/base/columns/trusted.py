"""Opens folders and files that hold code, if no other user can have written them.

Compiled code runs with the rights of the user who loads it. So it is loaded only from a file that
the effective user owns, in a folder that the effective user owns, and neither may be written by its
group or by others. On the way there, only root and the effective user own folders and links, and
others may write to none of them unless it is sticky, as `/tmp` is. Each folder is opened relative
to the one before, so what was checked is what is used. An access control list that lets others
write shows in the group's bits (acl(5)).
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# Without O_PATH (Linux alone), folders on the way must be readable, too.
_FOLDER_FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0)
# A named pipe in place of a file must not block.
_FILE_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH
_MOST_LINKS = 40  # as in the kernel, path_resolution(7)


class UntrustedError(OSError):
    """Other users may have written a folder or file, or replaced it by a link.

    The message names the path and the reason.
    """


@contextmanager
def opened_folder(path: Path, *, create: bool = False) -> Iterator[int]:
    """A file descriptor of a folder that only the effective user may write.

    Args:
        path: The folder.
        create: Create it and missing parents, accessible by this user only.

    Raises:
        UntrustedError: Other users may write to it or replace it.
        OSError: It does not exist, or cannot be opened or created.
    """
    if os.open not in os.supports_dir_fd or not hasattr(os, "geteuid"):
        raise UntrustedError("this system does not report who may write to a file")
    if not path.is_absolute():
        raise UntrustedError(f"{path} is not an absolute path")
    folder = _walk(path, create=create)
    try:
        _check_own(os.fstat(folder), path)
        yield folder
    finally:
        os.close(folder)


@contextmanager
def opened_file(path: Path, folder: int) -> Iterator[int]:
    """A file descriptor of a regular file that only the effective user may write.

    Args:
        path: The file; a link in its place is not followed.
        folder: Its folder, from `opened_folder`.

    Raises:
        UntrustedError: Other users may write to it, or it is a link, pipe, device or socket.
        OSError: It does not exist, or cannot be opened.
    """
    file = _opened(path, folder)
    try:
        status = os.fstat(file)
        _check_own(status, path)
        if not stat.S_ISREG(status.st_mode):
            raise UntrustedError(f"{path} is not a regular file")
        yield file
    finally:
        os.close(file)


def _opened(path: Path, folder: int) -> int:
    """Open a file of a folder without following a link."""
    try:
        return os.open(path.name, _FILE_FLAGS | _NO_LINK, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise UntrustedError(f"{path} is a symbolic link") from None
        if error.errno == errno.ENXIO:
            raise UntrustedError(f"{path} is not a regular file") from None
        raise


def _walk(path: Path, *, create: bool) -> int:
    """Open a path component by component; a file descriptor of the last one."""
    root, *names = path.parts
    names.reverse()
    folder, links = os.open(root, _FOLDER_FLAGS | _NO_LINK), 0
    try:
        while names:
            _check_parent(os.fstat(folder), path)
            name = names.pop()
            if target := _target(name, folder, path):
                links += 1
                if links > _MOST_LINKS:
                    raise UntrustedError(f"{path} leads through too many symbolic links")  # noqa: TRY301
                names += reversed(target.parts)
            else:
                folder = _entered(name, folder, create=create and name != "..")
    except BaseException:
        os.close(folder)
        raise
    return folder


def _entered(name: str, folder: int, *, create: bool) -> int:
    """Open a folder inside another one, and close the outer one."""
    if create:
        try:
            os.mkdir(name, 0o700, dir_fd=folder)
        except FileExistsError:
            pass
        except OSError:  # a read-only file system reports this for existing folders, too
            os.stat(name, dir_fd=folder)
    inner = os.open(name, _FOLDER_FLAGS | _NO_LINK, dir_fd=folder)
    os.close(folder)
    return inner


def _target(name: str, folder: int, path: Path) -> Path | None:
    """Target of a symbolic link of root or the effective user; None for anything else.

    Raises:
        UntrustedError: The link belongs to another user.
    """
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISLNK(status.st_mode):
        return None
    if status.st_uid not in {0, os.geteuid()}:
        raise UntrustedError(f"{path} leads through a symbolic link of another user")
    return Path(os.readlink(name, dir_fd=folder))


def _check_own(status: os.stat_result, path: Path) -> None:
    """Raise an error unless the effective user owns a path and only that user may write."""
    if status.st_uid != os.geteuid():
        raise UntrustedError(f"{path} belongs to another user")
    if status.st_mode & _OTHERS_MAY_WRITE:
        raise UntrustedError(f"other users may write to {path}")


def _check_parent(status: os.stat_result, path: Path) -> None:
    """Raise an error for a folder whose content other users may replace."""
    if status.st_uid not in {0, os.geteuid()}:
        raise UntrustedError(f"{path} lies in a folder of another user")
    if status.st_mode & stat.S_ISVTX or not status.st_mode & _OTHERS_MAY_WRITE:
        return
    if status.st_mode & stat.S_IWOTH or not _is_private_group(status.st_gid):
        raise UntrustedError(f"{path} lies in a folder to which other users may write")


def _is_private_group(group: int) -> bool:
    """Whether a group has the effective user as its only member.

    Many systems create such a group for each user, and create folders with mode 0775.
    """
    import grp  # noqa: PLC0415 - rarely needed
    import pwd  # noqa: PLC0415

    try:
        user, found = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:  # no entry, as in containers
        return False
    is_same = (found.gr_gid, found.gr_name) == (user.pw_gid, user.pw_name)
    return is_same and set(found.gr_mem) <= {user.pw_name}
