"""Letting the sampler look at a process where the kernel lets ancestors alone look.

Where Yama's `ptrace_scope` is 1, as on Ubuntu, a process may be looked at by its ancestors and by
one process that it names itself, with that one's descendants. The observed processes name the one
that starts py-spy, and nobody else; a fork has to name it again.

Source: Linux, Documentation/admin-guide/LSM/Yama.rst; linux/prctl.h.
"""

from __future__ import annotations

import functools
import os

from stepwhy.capture.attach import LOOKER_VARIABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ANCESTORS_ONLY = 1
_SCOPE = "/proc/sys/kernel/yama/ptrace_scope"
_PR_SET_PTRACER = 0x59616D61


def scope(path: Path | str = _SCOPE) -> int:
    """How the kernel restricts reading another process's memory; 0 where it does not.

    Args:
        path: Where the kernel tells.
    """
    try:
        with open(path, encoding="ascii") as file:  # noqa: PTH123 - loads nothing in the job
            return int(file.read())
    except (OSError, ValueError):
        return 0


def let_look(pid: int) -> None:
    """Let a process and its descendants read this one's memory; never raises.

    Args:
        pid: The process; 0 for nobody.
    """
    prctl = _prctl()
    if prctl is not None:
        prctl(pid)


@functools.cache
def _prctl() -> Callable[[int], object] | None:
    """Names a process to the kernel; None on a system without such a call.

    Looked up once, and not in a fork: a thread of the parent may have held the loader's lock.
    """
    try:
        import ctypes

        call = ctypes.CDLL(None).prctl
    except Exception:
        return None
    return lambda pid: call(_PR_SET_PTRACER, ctypes.c_ulong(pid), 0, 0, 0)


def permit() -> None:
    """Let the sampler of this run look at this process and at what it forks; never raises."""
    if not _looker():
        return
    let_look(_looker())
    _follow_forks()


@functools.cache
def _follow_forks() -> None:
    """A fork has not inherited whom its parent named: it names it again, once."""
    os.register_at_fork(after_in_child=_permit_fork)


def _permit_fork() -> None:
    if _looker():
        let_look(_looker())


def _looker() -> int:
    """Id of the process that samples this run; 0 where nobody need be named."""
    try:
        return int(os.environ.get(LOOKER_VARIABLE, "0"))
    except ValueError:
        return 0
