"""Find processes of a run that outlive its command, such as servers and daemons.

They have inherited the variable with the run directory, even if they have changed their parents.

Source: proc(5), ``/proc/<pid>/environ``; that of another user cannot be read.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from stepwhy.record import RUN_DIR_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

_PROC = Path("/proc")
# Servers of multiprocessing need a moment to notice that the command has ended.
_GRACE_S = 0.5
_POLL_S = 0.02
# Tracks shared memory and forks no process, so it has nothing to log.
# Source: CPython, Lib/multiprocessing/resource_tracker.py, `ensure_running`.
_TRACKER = b"from multiprocessing.resource_tracker import main"


def survivors(run_dir: Path, proc: Path = _PROC, grace_s: float = _GRACE_S) -> list[int]:
    """The processes that keep running with this run directory in their environment.

    Args:
        run_dir: The run directory, absolute.
        proc: Folder of the proc file system.
        grace_s: How long they may take to end, s; without any, there is no wait.
    """
    variable = os.fsencode(f"{RUN_DIR_VARIABLE}={run_dir}")
    left = [pid for pid in _ids(proc) if _survives(proc, pid, variable)]
    deadline = time.monotonic() + grace_s
    while left and time.monotonic() < deadline:
        time.sleep(_POLL_S)
        left = [pid for pid in left if _survives(proc, pid, variable)]
    return sorted(left)


def _survives(proc: Path, pid: int, variable: bytes) -> bool:
    """Whether a process has this variable in its environment, and is no helper of Python."""
    if variable not in _words(proc / str(pid) / "environ"):
        return False
    return not any(word.startswith(_TRACKER) for word in _words(proc / str(pid) / "cmdline"))


def _ids(proc: Path) -> Iterator[int]:
    """All processes but this one."""
    try:
        names = os.listdir(proc)  # noqa: PTH208 - names, of which few are variable
    except OSError:
        return
    for name in names:
        if name.isdecimal() and int(name) != os.getpid():
            yield int(name)


def _words(path: Path) -> list[bytes]:
    """The entries of a file in /proc; [] if the process is gone or another user's."""
    try:
        return path.read_bytes().split(b"\0")
    except OSError:
        return []
