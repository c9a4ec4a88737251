"""Let the sampler read a process where the kernel allows that only to its ancestors.

Where Yama's `ptrace_scope` is 1, as on Ubuntu, the memory of a process may be read by its ancestors
and by one process that it names, with that one's descendants. Observed processes name the process
that starts py-spy, and no other. A fork has to name it again.

Source: Linux, Documentation/admin-guide/LSM/Yama.rst; linux/prctl.h.
"""

from __future__ import annotations

import functools
import os

from stepwhy.record import SAMPLER_VARIABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ANCESTORS_ONLY = 1
_SCOPE = "/proc/sys/kernel/yama/ptrace_scope"
_PR_SET_PTRACER = 0x59616D61


def scope(path: Path | str = _SCOPE) -> int:
    """The kernel's restriction on reading another process's memory; 0 for none.

    Args:
        path: File in which the kernel shows it.
    """
    try:
        with open(path, encoding="ascii") as file:  # noqa: PTH123 - loads nothing in the job
            return int(file.read())
    except (OSError, ValueError):
        return 0


def allow_reading(pid: int) -> None:
    """Let a process and its descendants read this one's memory; never raises.

    Args:
        pid: The process; 0 for none.
    """
    prctl = _prctl()
    if prctl is not None:
        prctl(pid)


@functools.cache
def _prctl() -> Callable[[int], object] | None:
    """Function that names a process to the kernel; None if the system has none.

    Looked up once, and not in a fork: a thread of the parent may have held the loader's lock.
    """
    try:
        import ctypes

        call = ctypes.CDLL(None).prctl
    except Exception:
        return None
    return lambda pid: call(_PR_SET_PTRACER, ctypes.c_ulong(pid), 0, 0, 0)


def allow_sampler() -> None:
    """Let the sampler of this run read this process and its forks; never raises."""
    if not _sampler_id():
        return
    allow_reading(_sampler_id())
    _follow_forks()


@functools.cache
def _follow_forks() -> None:
    """Name the sampler again in each fork, which does not inherit the permission."""
    os.register_at_fork(after_in_child=_allow_in_fork)


def _allow_in_fork() -> None:
    if _sampler_id():
        allow_reading(_sampler_id())


def _sampler_id() -> int:
    """Id of the process that samples this run; 0 if none needs permission."""
    try:
        return int(os.environ.get(SAMPLER_VARIABLE, "0"))
    except ValueError:
        return 0
