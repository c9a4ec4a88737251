"""The directory of one observed process, and its logs of bounded size.

A log is written in whole lines, each batch in one write. A full ``steps.jsonl`` is renamed to
``steps-<number of its first line>.jsonl``, and a new ``steps.jsonl`` begins. The first full file
is kept because it contains the warm-up, and so are the newest ones. Those in between are deleted,
which readers recognise by the numbers in the names.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil

from stepwhy.base.regular_files import open_regular
from stepwhy.base.text import utf8
from stepwhy.base.whole_files import write_whole
from stepwhy.record.core.masking import mask_file, masked
from stepwhy.record.core.process import lifetime, losses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from typing import Any

PROCESS_SCHEMA = "stepwhy.process/1"
PROCESS_FILE = "process.json"

_FILE_BYTES = 16 << 20
# Other logs hold rare events, or samples at growing intervals.
_SIDE_FILE_BYTES = 1 << 20
# Full files that are kept: with the one being written, 128 MiB or about a million steps.
_KEPT_FILES = 7
_PREFIX = "process-"
_LAST_STREAM = 2
# A window takes megabytes; the log is more important than another window.
_LEAST_SPACE = 64 << 20
# The smallest block size of common file systems.
_BLOCK_BYTES = 4096


def encode(value: Any) -> str:
    """A value as JSON on one line, with secrets and private names masked."""
    return json.dumps(masked(value), ensure_ascii=False, separators=(",", ":"))


def write_json(path: Path, value: Mapping[str, Any], *, in_place: bool = False) -> None:
    """Write one JSON object as a whole file.

    Args:
        path: The file; compressed if its name ends in '.gz'.
        value: The object.
        in_place: If there is no room for another file, overwrite the existing one.

    Raises:
        OSError: If it cannot be written.
    """
    data = utf8(encode(value)) + b"\n"
    if path.suffix == ".gz":
        import gzip

        data = gzip.compress(data, 6, mtime=0)
    try:
        write_whole(path, data)
    except OSError:
        if not (in_place and path.is_file()):
            raise
        _write_over(path, data)


def _write_over(path: Path, data: bytes) -> None:
    """Overwrite a file within its first block, which needs no further space on the disk.

    Raises:
        OSError: It cannot be written, or does not fit into that block.
    """
    handle = open_regular(path, os.O_WRONLY | os.O_NOFOLLOW)
    try:
        padded = data.ljust(os.fstat(handle).st_size)
        if len(padded) > _BLOCK_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if os.pwrite(handle, padded, 0) < len(padded):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    finally:
        os.close(handle)


def append_lines(path: Path, lines: list[str]) -> None:
    """Append whole lines.

    The file is opened each time: the training could close a descriptor that stays open, and reuse
    its number for a file of its own.
    """
    append_bytes(path, utf8("\n".join(lines) + "\n"))


def append_bytes(path: Path, data: bytes) -> None:
    """Append bytes to a file.

    Raises:
        OSError: If not all could be written (a full disk), so that the file may end within a line;
            or if it is a link, pipe or device, which must not block the job or redirect the write.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
    _write(_above_streams(open_regular(path, flags, 0o644)), data)


def _write(handle: int, data: bytes) -> None:
    """Write all data, and close the file."""
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(handle, rest) :]
    finally:
        os.close(handle)


def _above_streams(handle: int) -> int:
    """Move a file to a number above the standard streams, one of which may be closed."""
    if handle > _LAST_STREAM:
        return handle
    moved = fcntl.fcntl(handle, fcntl.F_DUPFD_CLOEXEC, _LAST_STREAM + 1)
    os.close(handle)
    return moved


class BoundedLog:
    """A log of bounded size that keeps its beginning and its end.

    Args:
        folder: Folder of the log.
        name: Its name, without `.jsonl`.
        file_bytes: Size of a full file.
        kept_files: Number of full files to keep; at least 2.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        file_bytes: int = _FILE_BYTES,
        kept_files: int = _KEPT_FILES,
    ) -> None:
        self._folder = folder
        self._name = name
        self._path = folder / f"{name}.jsonl"
        self._file_bytes = file_bytes
        self._kept_files = kept_files
        self._full: list[Path] = []
        self._first = self._next = self._size = 0

    def append(self, lines: list[str]) -> None:
        """Append whole lines.

        Raises:
            OSError: They cannot be written.
        """
        data = utf8("\n".join(lines) + "\n")
        if self._size and self._size + len(data) > self._file_bytes:
            self._rotate()
        append_bytes(self._path, data)
        self._size += len(data)
        self._next += len(lines)

    def _rotate(self) -> None:
        """Rename the full file, and delete the second oldest if there are too many."""
        aside = self._folder / f"{self._name}-{self._first:012d}.jsonl"
        self._path.rename(aside)
        self._full.append(aside)
        self._first, self._size = self._next, 0
        if len(self._full) > self._kept_files:
            self._full.pop(1).unlink(missing_ok=True)


class ProcessFolder:
    """The directory of this process, shared by its observers; it appears when opened.

    Args:
        run_dir: The run directory, absolute.

    Attributes:
        path: The directory; final once it is open.
        windows: Number of traced windows in it.
    """

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self.path = run_dir / f"{_PREFIX}{os.getpid()}"
        self.windows = 0
        self._about: dict[str, Any] | None = None
        self._logs: dict[str, BoundedLog] = {}
        self._losses = 0

    @property
    def opened(self) -> bool:
        """Whether it exists."""
        return self._about is not None

    def open(self, about: Mapping[str, Any]) -> None:
        """Make the directory, once; the run directory must still exist.

        A process that replaced itself (`os.execv`) keeps its id, so it gets another name: the
        log of the former program must not continue with other steps.

        Args:
            about: Further members of `process.json`, without the schema and the id. Functions are
                called now, and return further members; those of one that fails are left out.

        Raises:
            OSError: If it cannot be created.
        """
        if self.opened:
            return
        self.path = self._make()
        (self.path / "windows").mkdir()
        self._about = {"schema": PROCESS_SCHEMA, "pid": os.getpid(), **_members(about)}
        self._about["ended_ns"] = None
        write_json(self.path / PROCESS_FILE, self._about)

    def _make(self) -> Path:
        """Make a directory with a free name."""
        name, number = f"{_PREFIX}{os.getpid()}", 1
        while True:
            path = self._run_dir / (name if number == 1 else f"{name}.{number}")
            try:
                path.mkdir()
            except FileExistsError:
                if not path.is_dir():
                    raise
                number += 1
            else:
                return path

    def append(self, name: str, lines: list[str]) -> None:
        """Append lines to the log of that name.

        Raises:
            OSError: They cannot be written.
        """
        if name not in self._logs:
            size = _FILE_BYTES if name == "steps" else _SIDE_FILE_BYTES
            self._logs[name] = BoundedLog(self.path, name, size)
        self._logs[name].append(lines)
        self._write_losses()

    def add_window(
        self, about: Callable[[], Mapping[str, Any]], fill: Callable[[Path], None]
    ) -> Path:
        """Add a traced window, which appears once `fill` has written its files.

        Args:
            about: Returns the content of `window.json`; called when the other files are written.
            fill: Writes these into the given folder.

        Returns:
            The window's directory.

        Raises:
            OSError: It cannot be written. Exceptions from `fill` pass through, too.
        """
        # Leave the rest of a nearly full disk to the training and the log.
        disk = os.statvfs(self.path)
        if disk.f_bavail * disk.f_frsize < _LEAST_SPACE:
            raise OSError(errno.ENOSPC, f"less than {_LEAST_SPACE >> 20} MiB are free on the disk")
        final = self.path / "windows" / f"{self.windows:03d}"
        draft = final.with_name(f".{final.name}")
        try:
            draft.mkdir()
            fill(draft)
            for file in draft.iterdir():
                # What an earlier window has, too, was masked there.
                if file.suffix != ".gz" and file.stat().st_nlink == 1:
                    mask_file(file)
            write_json(draft / "window.json", about())
            draft.rename(final)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
        self.windows += 1
        return final

    def _write_losses(self) -> None:
        """Write a message for each thing that cannot be observed, once.

        Raises:
            OSError: They cannot be written.
        """
        fresh = losses.texts[self._losses :]
        self._losses += len(fresh)
        if fresh:
            lines = [encode({"level": "warning", "slug": losses.SLUG, "text": t}) for t in fresh]
            append_lines(self.path / "messages.jsonl", lines)

    def end(self, time_ns: int) -> None:
        """Record that the observation lasted to the end of the process: nothing is missing.

        Raises:
            OSError: It cannot be written.
        """
        if self._about is not None:
            write_json(self.path / PROCESS_FILE, {**self._about, "ended_ns": time_ns})


def _members(about: Mapping[str, Any]) -> dict[str, Any]:
    """Members of `process.json`, with what its functions return."""
    found: dict[str, Any] = {}
    for name, value in about.items():
        if callable(value):
            with contextlib.suppress(Exception):
                found |= value()
        else:
            found[name] = value
    return found


def process_id(folder: Path) -> int:
    """The process id of a process directory.

    Raises:
        ValueError: If it is not a process directory.
    """
    return int(folder.name.removeprefix(_PREFIX).partition(".")[0])


_folders: dict[Path, ProcessFolder] = {}


def folder_of(run_dir: Path) -> ProcessFolder:
    """The directory of this process in a run directory, shared by its observers."""
    return _folders.setdefault(run_dir, ProcessFolder(run_dir))


def forget_folders() -> None:
    """Start over, as in a process without a directory (after a fork)."""
    _folders.clear()


lifetime.on_begin(forget_folders)
