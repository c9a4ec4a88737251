"""Processes of a run that outlive its command: servers that it started, daemons.

They inherited the variable that names the run directory, whatever they did to their parents.

Source: proc(5), ``/proc/<pid>/environ``; another user's is not readable, and is not looked at.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from stepwhy.capture.attach import RUN_DIR_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

_PROC = Path("/proc")
# Servers of multiprocessing end when they notice that the command has, which takes a moment.
_GRACE_S = 0.5
_POLL_S = 0.02
# Counts shared memory, and forks no process: it has nothing to log.
# Source: CPython, Lib/multiprocessing/resource_tracker.py, `ensure_running`.
_TRACKER = b"from multiprocessing.resource_tracker import main"


def survivors(run_dir: Path, proc: Path = _PROC, grace_s: float = _GRACE_S) -> list[int]:
    """The processes that still run with this run directory in their environment, and go on.

    Args:
        run_dir: The run directory, absolute.
        proc: Where the kernel shows its processes.
        grace_s: How long those that are there may take to end, s; no time passes without any.
    """
    wanted = os.fsencode(f"{RUN_DIR_VARIABLE}={run_dir}")
    left = [pid for pid in _ids(proc) if _survives(proc, pid, wanted)]
    deadline = time.monotonic() + grace_s
    while left and time.monotonic() < deadline:
        time.sleep(_POLL_S)
        left = [pid for pid in left if _survives(proc, pid, wanted)]
    return sorted(left)


def _survives(proc: Path, pid: int, wanted: bytes) -> bool:
    """Whether a process has this variable in its environment, and is no mere helper."""
    if wanted not in _words(proc / str(pid) / "environ"):
        return False
    return not any(word.startswith(_TRACKER) for word in _words(proc / str(pid) / "cmdline"))


def _ids(proc: Path) -> Iterator[int]:
    """All processes but this one."""
    try:
        names = os.listdir(proc)  # noqa: PTH208 - names, of which few are wanted
    except OSError:
        return
    for name in names:
        if name.isdecimal() and int(name) != os.getpid():
            yield int(name)


def _words(path: Path) -> list[bytes]:
    """What a file of the kernel lists of a process; [] when that is gone or foreign."""
    try:
        return path.read_bytes().split(b"\0")
    except OSError:
        return []
