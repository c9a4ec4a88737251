"""Observe waits of the main thread for child processes, which may save a checkpoint meanwhile.

Whether a program that polls its children (`os.WNOHANG`) waits between two polls is not seen.
Children that run another program, such as with `subprocess` or the start method `spawn`, do not
tell their parent what they save.
"""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING

from stepwhy.record.core.clock import now_ns
from stepwhy.record.core.compiled_code import wrapper
from stepwhy.record.core.wrappers import Builtin, wraps
from stepwhy.record.watchers.saving import log_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from stepwhy.record.watchers.saving import SaveLog

    Call = Callable[..., Any]

# Each returns the id of the child first, and 0 or None if it has not ended.
_WAITS = ("wait", "wait3", "wait4", "waitid", "waitpid")


@functools.cache
def observe_waits(run_dir: str) -> None:
    """Observe the waits of the module `os`, once."""
    log = log_of(run_dir)
    for name in _WAITS:
        if hasattr(os, name):
            observed = _observed(getattr(os, name), log, _ended_child)
            setattr(os, name, Builtin(observed, "os", name))


def observe_joins(module: ModuleType, run_dir: str) -> None:
    """Observe the `Process.join` of forks, which with a timeout does not wait in `os`.

    Args:
        module: `multiprocessing.popen_fork`.
        run_dir: The run directory, absolute.
    """
    processes: Any = module
    popen = processes.Popen
    popen.wait = _observed(popen.wait, log_of(run_dir), _joined_child)


def _ended_child(_: tuple[Any, ...], result: Any) -> int:
    """The child that a function of `os` has waited for; 0 for none."""
    return int(result[0]) if result else 0


def _joined_child(args: tuple[Any, ...], result: Any) -> int:
    """The child that `Popen.wait` has waited for; 0 if it has not ended."""
    return 0 if result is None else int(args[0].pid)


def _observed(
    original: Call, log: SaveLog, child_of: Callable[[tuple[Any, ...], Any], int]
) -> Call:
    """The function, with its waits passed to the log."""

    @wrapper
    @wraps(original)
    def wait(*args: Any, **kwargs: Any) -> Any:
        if not log.begin():
            return original(*args, **kwargs)
        start_ns, result = now_ns(), None
        try:
            result = original(*args, **kwargs)
            return result
        finally:
            log.waited(lambda: child_of(args, result), start_ns)

    return wait
