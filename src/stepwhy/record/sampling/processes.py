"""Read `/proc` at little cost, as a job may have thousands of threads.

Source: proc(5).
"""

from __future__ import annotations

import os
from pathlib import Path

from stepwhy.record.core.process.folder import process_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

PROC = Path("/proc")
# A read of /proc returns at most a page; a shorter chunk than this is the last one.
_PAGE_BYTES = 4096
_LAST_BYTES = 2048
# Index in `Processes.stat`: the man page counts from 1, and two fields come before.
_START = 22 - 3
_ENDED = (b"Z", b"X")


class Processes:
    """Reads `/proc`; anything that is gone or not permitted reads as empty.

    Args:
        root: Folder of the proc file system.
    """

    def __init__(self, root: Path = PROC) -> None:
        self._root = str(root)

    def read(self, name: str) -> bytes:
        """Content of a file below the root; b'' if it cannot be read."""
        try:
            handle = os.open(f"{self._root}/{name}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return b""
        try:
            return b"".join(_chunks(handle))
        except OSError:
            return b""
        finally:
            os.close(handle)

    def names(self, folder: str) -> list[str]:
        """Names in a folder below the root; [] if it cannot be listed."""
        try:
            return os.listdir(f"{self._root}/{folder}")  # noqa: PTH208 - a hot path
        except OSError:
            return []

    def links(self, folder: str) -> Iterator[str]:
        """Targets of the links in a folder below the root."""
        for name in self.names(folder):
            try:
                yield os.readlink(f"{self._root}/{folder}/{name}")  # noqa: PTH115 - a hot path
            except OSError:
                continue

    def stat(self, pid: int) -> list[bytes]:
        """The fields of `stat` from the state (field 3) on; [] if the process is gone."""
        # The name in parentheses may contain spaces and parentheses; the fields follow it.
        return self.read(f"{pid}/stat").rpartition(b")")[2].split()

    def start_ticks(self, pid: int) -> int | None:
        """Start time of a process, which distinguishes it from a later one with the same id.

        Returns:
            Clock ticks since the machine started; None if the process has ended.
        """
        fields = self.stat(pid)
        return int(fields[_START]) if len(fields) > _START and fields[0] not in _ENDED else None

    def threads(self, pid: int) -> list[str]:
        """The ids of its threads."""
        return self.names(f"{pid}/task")

    def descendants(self, root: int) -> list[int]:
        """A process and all its living descendants, itself first."""
        found = [root]
        for pid in found:
            for thread in self.threads(pid):
                found += map(int, self.read(f"{pid}/task/{thread}/children").split())
        return found


def _chunks(handle: int) -> Iterator[bytes]:
    while True:
        chunk = os.read(handle, _PAGE_BYTES)
        yield chunk
        if len(chunk) < _LAST_BYTES:
            return


def observed(run_dir: Path) -> dict[int, Path]:
    """The directories of the observed processes by process id.

    Of several directories with one id, the newest: that process replaced itself (`os.execv`).
    """
    found: dict[int, Path] = {}
    folders = [p for p in run_dir.glob("process-*") if p.is_dir()]
    for folder in sorted(folders, key=lambda p: (len(p.name), p.name)):
        try:
            found[process_id(folder)] = folder
        except ValueError:
            continue  # not one of ours
    return found
