"""The folder of one observed process, and the logs in it that grow without growing for ever.

A log is written by whole lines, each batch in one write. When ``steps.jsonl`` is full it is renamed
``steps-<number of its first line>.jsonl`` and the next lines begin a fresh ``steps.jsonl``. The
first full file stays, because it holds the warm-up, and so do the newest ones; those between are
dropped, which the numbers in the names show to the reader.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os

from stepwhy.capture.masking import masked
from stepwhy.capture.process import lifetime
from stepwhy.regular_files import open_regular
from stepwhy.text import utf8
from stepwhy.whole_files import write_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

PROCESS_SCHEMA = "stepwhy.process/1"
PROCESS_FILE = "process.json"

_FILE_BYTES = 16 << 20
# What is logged beside the steps is rare, or sampled ever more rarely.
_SIDE_FILE_BYTES = 1 << 20
# Full files that stay: with the one being written, 128 MiB or about a million steps.
_KEPT_FILES = 7
_PREFIX = "process-"
_LAST_STREAM = 2
# The smallest that file systems in use have.
_BLOCK_BYTES = 4096


def encode(value: Any) -> str:
    """A value as JSON on one line, without what is secret or private in its texts."""
    return json.dumps(masked(value), ensure_ascii=False, separators=(",", ":"))


def write_json(path: Path, value: Mapping[str, Any], *, in_place: bool = False) -> None:
    """Write one JSON object as a whole file.

    Args:
        path: The file.
        value: The object.
        in_place: Where there is no room for another file, write over the one that is there.

    Raises:
        OSError: It cannot be written.
    """
    data = utf8(encode(value)) + b"\n"
    try:
        write_whole(path, data)
    except OSError:
        if not (in_place and path.is_file()):
            raise
        _write_over(path, data)


def _write_over(path: Path, data: bytes) -> None:
    """Write into the first block of a file, which it has already; nothing of the old is left.

    Raises:
        OSError: It cannot be written, or takes more than that block.
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

    The file is opened each time: a descriptor that stayed open could be closed by the training and
    its number given to a file of the training's own.
    """
    append_bytes(path, utf8("\n".join(lines) + "\n"))


def append_bytes(path: Path, data: bytes) -> None:
    """Append bytes to a file, all of them.

    A pipe in its place does not stop the job, and a link is not followed.

    Raises:
        OSError: Not all could be written (a full disk); the file may end in the middle of a line.
            Or it is a link, pipe or device.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
    _write(_above_streams(open_regular(path, flags, 0o644)), data)


def _write(handle: int, data: bytes) -> None:
    """Write all of it, and close the file."""
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(handle, rest) :]
    finally:
        os.close(handle)


def _above_streams(handle: int) -> int:
    """The same file under a number that no standard stream has, in case one of them is closed."""
    if handle > _LAST_STREAM:
        return handle
    moved = fcntl.fcntl(handle, fcntl.F_DUPFD_CLOEXEC, _LAST_STREAM + 1)
    os.close(handle)
    return moved


class GrowingLog:
    """A log that keeps its beginning and its end.

    Args:
        folder: Where it lies.
        name: Its name, without `.jsonl`.
        file_bytes: When a file is full.
        kept_files: How many full files stay; at least 2.
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
        """Set the full file aside, and drop the second oldest if there are too many."""
        aside = self._folder / f"{self._name}-{self._first:012d}.jsonl"
        self._path.rename(aside)
        self._full.append(aside)
        self._first, self._size = self._next, 0
        if len(self._full) > self._kept_files:
            self._full.pop(1).unlink(missing_ok=True)


class ProcessFolder:
    """The folder of this process, shared by all that observe it; it appears when it is opened.

    Args:
        run_dir: The run directory, absolute.

    Attributes:
        path: The folder; known once it is open.
        windows: How many traced windows it holds.
    """

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self.path = run_dir / f"{_PREFIX}{os.getpid()}"
        self.windows = 0
        self._about: dict[str, Any] | None = None
        self._logs: dict[str, GrowingLog] = {}

    @property
    def opened(self) -> bool:
        """Whether it exists."""
        return self._about is not None

    def open(self, about: Mapping[str, Any]) -> None:
        """Make the folder, once; the run directory itself must still be there.

        A process that replaced another one (`os.execv`) has the id of that one, whose log must
        not go on with foreign steps.

        Args:
            about: What `process.json` says beside its schema and the id.

        Raises:
            OSError: It cannot be made.
        """
        if self.opened:
            return
        self.path = self._make()
        (self.path / "windows").mkdir()
        self._about = {"schema": PROCESS_SCHEMA, "pid": os.getpid(), **about, "ended_ns": None}
        write_json(self.path / PROCESS_FILE, self._about)

    def _make(self) -> Path:
        """A folder of a name that is free."""
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
            self._logs[name] = GrowingLog(self.path, name, size)
        self._logs[name].append(lines)

    def end(self, time_ns: int) -> None:
        """Note that the observation ended with the process, not before: nothing is missing.

        Raises:
            OSError: It cannot be written.
        """
        if self._about is not None:
            write_json(self.path / PROCESS_FILE, {**self._about, "ended_ns": time_ns})


def process_id(folder: Path) -> int:
    """The id of the process that a folder belongs to.

    Raises:
        ValueError: It is not the folder of a process.
    """
    return int(folder.name.removeprefix(_PREFIX).partition(".")[0])


_folders: dict[Path, ProcessFolder] = {}


def folder_of(run_dir: Path) -> ProcessFolder:
    """The folder of this process in a run directory, the same for all that observe it."""
    return _folders.setdefault(run_dir, ProcessFolder(run_dir))


def forget_folders() -> None:
    """Begin as in a process that has no folder (after a fork)."""
    _folders.clear()


lifetime.on_begin(forget_folders)
