"""Stop the thread that Kineto starts with its first profile, and keeps.

The thread waits for requests to profile from outside the process. A child of a fork does not have
it, but has the condition variable that it waited on, whose destruction waits for its waiters: such
a child never ends, unless by `os._exit`, even when the profile has long been written.

Source: libkineto/src/ConfigLoader.cpp; glibc, nptl/pthread_cond_destroy.c.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

# The training has asked for such requests.
_REQUESTED_BY = ("KINETO_USE_DAEMON", "KINETO_CONFIG")
_LOADER = "_ZN9libkineto12ConfigLoader8instanceEv"
_STOP = "_ZN9libkineto12ConfigLoader10stopThreadEv"
_TASKS = Path("/proc/self/task")
# A new thread waits within a millisecond, or when a busy machine has let it run.
_LONGEST_WAIT_S = 0.5
_INTERVAL_S = 0.0005


def threads() -> set[str]:
    """The ids of the threads of this process; empty if the system does not tell them."""
    try:
        return {task.name for task in _TASKS.iterdir()}
    except OSError:
        return set()


def stop(started: set[str]) -> None:
    """Stop the thread, if this version of PyTorch can.

    A thread that does not wait yet would miss that it is told to end, and be waited for.

    Args:
        started: The threads that started with the profiler, this one among them.
    """
    if any(name in os.environ for name in _REQUESTED_BY):
        return
    deadline_s = time.monotonic() + _LONGEST_WAIT_S
    while any(_runs(thread) for thread in started):
        if time.monotonic() > deadline_s:
            return
        time.sleep(_INTERVAL_S)
    _stop()


def _runs(thread: str) -> bool:
    """Whether a thread runs or wants to."""
    try:
        stat = (_TASKS / thread / "stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] == "R"


def _stop() -> None:
    import ctypes

    from torch import _C

    library: Any = ctypes.CDLL(_C.__file__)
    try:
        loader, stop_thread = library[_LOADER], library[_STOP]
    except AttributeError:
        return
    loader.restype = ctypes.c_void_p
    stop_thread.argtypes, stop_thread.restype = (ctypes.c_void_p,), None
    stop_thread(loader())
