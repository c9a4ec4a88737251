"""Processes of a run that outlive its command: servers that it started, daemons.

They inherited the variable that names the run directory, whatever they did to their parents.

Source: proc(5), ``/proc/<pid>/environ``; another user's is not readable, and is not looked at.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from stepwhy.capture.attach import RUN_DIR_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

_PROC = Path("/proc")


def survivors(run_dir: Path, proc: Path = _PROC) -> list[int]:
    """The processes that still run with this run directory in their environment.

    Args:
        run_dir: The run directory, absolute.
        proc: Where the kernel shows its processes.
    """
    wanted = f"{RUN_DIR_VARIABLE}={run_dir}".encode()
    return sorted(pid for pid in _ids(proc) if wanted in _environ(proc, pid))


def _ids(proc: Path) -> Iterator[int]:
    """All processes but this one."""
    try:
        names = os.listdir(proc)  # noqa: PTH208 - names, of which few are wanted
    except OSError:
        return
    for name in names:
        if name.isdecimal() and int(name) != os.getpid():
            yield int(name)


def _environ(proc: Path, pid: int) -> list[bytes]:
    """The variables of a process as it was started; [] when it is gone or foreign."""
    try:
        return (proc / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return []
