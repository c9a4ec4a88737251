"""Write files and folders that appear complete or not at all, in folders others can write to.

Content goes to a draft in the same folder, which is renamed at the end. The name of a draft cannot
be guessed, and a draft is always a new file. A link in place of the result is replaced, not
followed, because another user or an unpacked archive may have put it there.

Source: open(2), rename(2), proc(5).
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager, suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import BinaryIO


def write_whole(path: Path, data: bytes) -> None:
    """Write a file that appears complete or not at all.

    Args:
        path: The file. Whatever is there is replaced; a regular file of this user passes on its
            permissions.
        data: Its content.

    Raises:
        OSError: It cannot be written; what was there is still there.
    """
    with _draft(path) as file:
        file.write(data)


def create(path: Path) -> BinaryIO:
    """Open an empty file for writing. Whatever is there is replaced, so links are not followed.

    Raises:
        OSError: It cannot be created.
    """
    path.unlink(missing_ok=True)
    return _new_file(path)


@contextmanager
def output_file(path: Path) -> Iterator[BinaryIO]:
    """Write a file that the user named; it appears complete or not at all.

    Devices, the files of /dev and /proc (such as /dev/stdout), and pipes of this user are not
    replaced: they receive the content once it is complete. Everything else is as in `write_whole`.

    Args:
        path: The file.

    Yields:
        A binary file, seekable.

    Raises:
        OSError: It cannot be written; with `errno.ENXIO`, it is a pipe that no program reads.
    """
    stream = _open_stream(path)
    if stream is not None:
        with open(stream, "wb") as end, _sent_to(end) as content:  # noqa: PTH123 - a descriptor
            yield content
    else:
        with _cleaned_up_when_terminated(), _draft(path) as file:
            yield file


@contextmanager
def output_folder(path: Path) -> Iterator[Callable[[str], BinaryIO]]:
    """Write a folder that the user named; it appears complete or not at all.

    Args:
        path: The folder, which must be empty if it exists. Its parents are created.

    Yields:
        A function that creates a file in it by name, for writing; a name with a slash is in a
        subfolder.

    Raises:
        OSError: It cannot be written, or is not empty.
    """
    import shutil  # noqa: PLC0415 - not in the job

    path.parent.mkdir(parents=True, exist_ok=True)
    draft = _draft_name(path)
    with _cleaned_up_when_terminated():
        try:
            draft.mkdir()
            with _creator(draft) as create_in_draft:
                yield create_in_draft
            draft.replace(path)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise


@contextmanager
def _creator(folder: Path) -> Iterator[Callable[[str], BinaryIO]]:
    """Create files in this folder, even if its path is replaced by a link meanwhile."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield lambda name: _new_file_below(name, handle)
    finally:
        os.close(handle)


def _new_file_below(name: str, folder: int) -> BinaryIO:
    """Create a file in an open folder, and the subfolder that its name begins with."""
    parent = os.path.dirname(name)  # noqa: PTH120 - relative to a descriptor
    if parent:
        with suppress(FileExistsError):
            os.mkdir(parent, dir_fd=folder)
    return _new_file(name, dir_fd=folder)


@contextmanager
def _draft(path: Path) -> Iterator[BinaryIO]:
    """Write a draft that replaces the file at the end, or is removed after an error."""
    draft, mode = _draft_name(path), _mode(path)
    try:
        with _new_file(draft, 0o666 if mode is None else mode) as file:
            if mode is not None:
                with suppress(OSError):  # some file systems have no permissions
                    os.fchmod(file.fileno(), mode)
            yield file
        draft.replace(path)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise


def _new_file(path: str | Path, mode: int = 0o666, *, dir_fd: int | None = None) -> BinaryIO:
    """Create a file; fail if a file or a link exists there.

    Args:
        path: The file.
        mode: Its permissions, before the umask is applied.
        dir_fd: Descriptor of the folder that a relative path starts from.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return open(os.open(path, flags, mode, dir_fd=dir_fd), "wb")  # noqa: PTH123 - a descriptor


def replaces(path: Path) -> bool:
    """Whether what is written to a path takes the place of a file, a folder or a link.

    Devices, pipes and the files of /dev and /proc are written to.

    Args:
        path: The path.
    """
    if _is_of_system(path):
        return False
    try:
        mode = path.lstat().st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)


def _is_of_system(path: Path) -> bool:
    """Whether it is a file of /dev or /proc, such as /dev/stdout, also where that is a link."""
    folder = os.path.realpath(path.parent)
    return folder == "/dev" or f"{folder}/".startswith("/proc/")


def _draft_name(path: Path) -> Path:
    """A short name, because the name of the file may have the maximum length."""
    return path.parent / f".stepwhy-{os.urandom(8).hex()}.part"


def _mode(path: Path) -> int | None:
    """Permissions of a regular file of this user; None for anything else."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    is_own = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
    return stat.S_IMODE(found.st_mode) & 0o777 if is_own else None


def _open_stream(path: Path) -> int | None:
    """Open a path that is written to, not replaced.

    Returns:
        Its descriptor; None if the file is to be replaced.

    Raises:
        OSError: It cannot be opened, or is a disk.
    """
    # /dev/stdout is a link that must stay, also where it leads to a regular file.
    if _is_of_system(path):
        if path.is_block_device():
            raise OSError(errno.EINVAL, "It is a disk")
        return _open_for_appending(path)
    with suppress(FileNotFoundError):
        if _is_stream(path.lstat()):
            handle = _open_for_appending(path, os.O_NOFOLLOW)
            if _is_stream(os.fstat(handle)):
                return handle
            os.close(handle)
            raise OSError(errno.EBUSY, "Somebody replaced it")
    return None


def _is_stream(found: os.stat_result) -> bool:
    """Whether it is a device, or a pipe of this user: other users could read from theirs."""
    is_own = found.st_uid == os.geteuid()
    return stat.S_ISCHR(found.st_mode) or (stat.S_ISFIFO(found.st_mode) and is_own)


def _open_for_appending(path: Path, flags: int = 0) -> int:
    """Open an existing file or stream, without waiting for a reader.

    Raises:
        OSError: It cannot be opened.
    """
    flags |= os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        handle = os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ENXIO and path.is_fifo():
            raise OSError(errno.ENXIO, "No program reads this pipe") from None
        raise
    os.set_blocking(handle, True)
    return handle


@contextmanager
def _sent_to(stream: BinaryIO) -> Iterator[BinaryIO]:
    """A temporary file whose content is written to a stream at the end."""
    import shutil  # noqa: PLC0415 - not in the job
    import tempfile  # noqa: PLC0415

    with tempfile.TemporaryFile() as content:
        yield content
        content.seek(0)
        shutil.copyfileobj(content, stream)


@contextmanager
def _cleaned_up_when_terminated() -> Iterator[None]:
    """Have SIGTERM and SIGHUP end this process only after drafts are removed.

    Signals that are already handled or ignored are not changed. Outside the main thread no signal
    is, because only the main thread may set handlers.
    """
    import signal  # noqa: PLC0415 - not in the job
    import threading  # noqa: PLC0415

    received: list[int] = []

    def unwind(number: int, _: object) -> None:
        received.append(number)
        if len(received) == 1:
            raise SystemExit(128 + number)

    is_main = threading.current_thread() is threading.main_thread()
    numbers = (signal.SIGTERM, signal.SIGHUP) if is_main else ()
    fatal = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]
    try:
        for number in fatal:
            signal.signal(number, unwind)
        yield
    finally:
        for number in fatal:
            signal.signal(number, signal.SIG_DFL)
        if received:
            signal.raise_signal(received[0])
