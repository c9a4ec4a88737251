"""How much memory is available, and whether a trace fits into it.

Linux kills a process that runs out of memory, or swaps for minutes before that. So a file that
cannot fit is refused before it is read.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from stepwhy.base.errors import TooLargeError
from stepwhy.base.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

ANY_SIZE = "STEPWHY_ANY_SIZE"
"""Environment variable: if it is 1, files of any size are read."""

# Memory of the most economical importer that reads a whole file (the file and its columns), as a
# multiple of its size.
_LEAST_TIMES = 1.5

MAPPED_TIMES = 0.25
"""Memory of the most economical importers, which map a plain file, as a multiple of its size.

An archive needs more, but only its compressed size is known at first.
"""

_ROOT = Path("/")


def check_fits(size: int, name: str, times: float = _LEAST_TIMES, held: int = 0) -> None:
    """Refuse a file that needs more memory than is available.

    Args:
        size: Its decompressed size as far as known, bytes.
        name: Name for messages.
        times: Peak memory as a multiple of the size.
        held: Bytes of the file that are already in memory.

    Raises:
        TooLargeError: If it does not fit.
    """
    left = available_bytes()
    if left is None or size * times <= left + held or os.environ.get(ANY_SIZE) == "1":
        return
    raise TooLargeError(
        f"{name} holds {format_bytes(size)} or more; explaining it takes at least {times:g} times "
        f"as much memory, and {format_bytes(left + held)} are left",
        f"Explain it on a larger machine, record fewer steps, or set {ANY_SIZE}=1 to try",
    )


def available_bytes(root: Path = _ROOT) -> int | None:
    """Bytes that this process can allocate without swapping; None if the system does not report it.

    The minimum of what the machine has and what each control group of the process allows. The page
    cache counts as available, because the kernel frees it on demand.

    Args:
        root: The root of the file system.

    Source: proc(5), ``MemAvailable``; Linux, Documentation/admin-guide/cgroup-v2.rst and
        cgroup-v1/memory.rst.
    """
    left = [*_machine_bytes(root), *_groups_bytes(root)]
    return max(min(left), 0) if left else None


def data_bytes(root: Path = _ROOT) -> int:
    """Memory of this process that counts towards `RLIMIT_DATA`.

    Args:
        root: The root of the file system.

    Raises:
        ValueError: The system does not report it.

    Source: proc(5), ``VmData``.
    """
    for line in _read(root / "proc/self/status").splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) * 1024
    raise ValueError("the system does not report how much memory a process uses")


def _machine_bytes(root: Path) -> Iterator[int]:
    for line in _read(root / "proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            yield int(line.split()[1]) * 1024


def _groups_bytes(root: Path) -> Iterator[int]:
    """Bytes left in each control group, from the group of the process up to the root."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            mount, files = root / "sys/fs/cgroup", ("memory.max", "memory.current", "")
        elif "memory" in controllers.split(","):
            mount = root / "sys/fs/cgroup/memory"
            files = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_")
        else:
            continue
        for group in _ancestors(mount / path.lstrip("/"), mount):
            yield from _group_bytes(group, *files)


def _ancestors(group: Path, mount: Path) -> Iterator[Path]:
    """A control group and its parents; a container may see only the mount point."""
    yield group
    while group != mount:
        group = group.parent
        yield group


def _group_bytes(group: Path, limit_file: str, usage_file: str, prefix: str) -> Iterator[int]:
    limit, usage = _read(group / limit_file).strip(), _read(group / usage_file).strip()
    if not limit.isdigit() or not usage.isdigit():  # 'max' means no limit
        return
    cached = sum(
        int(line.split()[1])
        for line in _read(group / "memory.stat").splitlines()
        if line.startswith((f"{prefix}inactive_file ", f"{prefix}active_file "))
    )
    yield int(limit) - int(usage) + cached


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
