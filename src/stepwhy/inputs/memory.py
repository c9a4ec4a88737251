"""How much memory is left, and whether a trace fits into it.

Linux ends a process that takes more than there is, or swaps for minutes before; so a file that
cannot fit is refused before it is read.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from stepwhy.errors import TooLargeError
from stepwhy.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

ANY_SIZE = "STEPWHY_ANY_SIZE"
"""Environment variable: set to 1, files are read whatever their size."""

# The file itself and its columns: what the most frugal importer that needs the whole file takes.
_LEAST_TIMES = 1.5

MAPPED_TIMES = 0.25
"""Memory by the size of a plain file for the most frugal importers (0.3), which map it. An archive
takes more, but its own size is all that is known at first."""

_ROOT = Path("/")


def check_fits(size: int, name: str, times: float = _LEAST_TIMES, held: int = 0) -> None:
    """Refuse a file that takes more memory than is left.

    Args:
        size: Its decompressed size as far as it is known, bytes.
        name: For messages.
        times: How much memory it takes at its peak, by its size.
        held: How much of it is in memory already, bytes.

    Raises:
        TooLargeError: It cannot be explained here.
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
    """What this process may still allocate without swapping; None where the system does not tell.

    That is the least of what the machine has and of what each control group around the process
    allows. Memory of the page cache counts as free: the kernel gives it back.

    Args:
        root: The root of the file system.

    Source: proc(5), ``MemAvailable``; Linux, Documentation/admin-guide/cgroup-v2.rst and
        cgroup-v1/memory.rst.
    """
    left = [*_of_machine(root), *_of_groups(root)]
    return max(min(left), 0) if left else None


def _of_machine(root: Path) -> Iterator[int]:
    for line in _read(root / "proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            yield int(line.split()[1]) * 1024


def _of_groups(root: Path) -> Iterator[int]:
    """What is left in each control group from the process's own up to the root."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            mount, files = root / "sys/fs/cgroup", ("memory.max", "memory.current", "")
        elif "memory" in controllers.split(","):
            mount = root / "sys/fs/cgroup/memory"
            files = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_")
        else:
            continue
        for group in _up_from(mount / path.lstrip("/"), mount):
            yield from _of_group(group, *files)


def _up_from(group: Path, mount: Path) -> Iterator[Path]:
    """A group and those around it; a container may see only the mount, under its own name."""
    yield group
    while group != mount:
        group = group.parent
        yield group


def _of_group(group: Path, limit_file: str, usage_file: str, prefix: str) -> Iterator[int]:
    limit, usage = _read(group / limit_file).strip(), _read(group / usage_file).strip()
    if not limit.isdigit() or not usage.isdigit():  # 'max' is no limit
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


__all__ = [
    "ANY_SIZE",
    "MAPPED_TIMES",
    "available_bytes",
    "check_fits",
]
