"""Limits on CPU time and memory for small inputs.

Traces of less than 10 MB are explained in a few seconds. A malicious file of that size may take
minutes or gigabytes in ways that are not known yet; the limits stop it.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from stepwhy.base.errors import TooLargeError
from stepwhy.read.inputs.memory import ANY_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    P = ParamSpec("P")
    R = TypeVar("R")

# Inputs of this many bytes or more are not limited.
_SMALL_BYTES = 10_000_000
# Slightly below the intended limits of 20 s and 1 GB, as both grow between two checks. Recorded
# traces of this size take up to 2 s and 200 MB.
_MOST_CPU_S = 18.0
_MOST_BYTES = 800_000_000
_CHECK_INTERVAL_S = 0.1  # CPU time
_CLEAN_UP_S = 0.5  # CPU time after a limit was exceeded
_RSS_UNIT = 1 if sys.platform == "darwin" else 1024


class _LimitExceededError(BaseException):
    """Raised in the main thread; not an `Exception`, so that no pass catches it.

    Args:
        what: The exceeded limit, in words.
    """

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


def bounded(command: Callable[P, R]) -> Callable[P, R]:
    """Stop a command if a small input takes more time or memory than any known trace.

    The command's argument `path` or `paths` names the input. `STEPWHY_ANY_SIZE=1` removes the
    limits.
    """

    @functools.wraps(command)
    def run(*args: P.args, **options: P.kwargs) -> R:
        named = options.get("paths", options.get("path"))
        paths = (named,) if isinstance(named, str) else named
        if not isinstance(paths, tuple) or not _are_small(paths):
            return command(*args, **options)
        with _limited(paths[0]):
            return command(*args, **options)

    return run


def _are_small(paths: tuple[str, ...]) -> bool:
    """Whether all inputs are files, and small in total."""
    if os.environ.get(ANY_SIZE) == "1":
        return False
    try:
        files = [Path(path).stat() for path in paths]
    except (OSError, ValueError):  # not a file name; opening it reports that
        return False
    return all(S_ISREG(f.st_mode) for f in files) and sum(f.st_size for f in files) < _SMALL_BYTES


@contextmanager
def _limited(name: str) -> Iterator[None]:
    """Check the CPU time and memory of this process every 0.1 s of CPU time."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or not hasattr(signal, "setitimer"):
        yield  # only the main thread gets signals, and Windows has no such timer
        return
    start_s, start_bytes = time.process_time(), _peak_bytes()

    def check(_signal: int, _frame: FrameType | None) -> None:
        exceeded = ""
        if time.process_time() - start_s > _MOST_CPU_S:
            exceeded = f"{_MOST_CPU_S:g} s of processor time"
        elif _peak_bytes() > max(_MOST_BYTES, start_bytes):
            exceeded = f"{_MOST_BYTES // 1_000_000} MB of memory"
        if exceeded:
            # Leave time to clean up, and raise again in case a finalizer swallowed the exception.
            signal.setitimer(signal.ITIMER_PROF, _CLEAN_UP_S, _CLEAN_UP_S)
            raise _LimitExceededError(exceeded)

    before = signal.signal(signal.SIGPROF, check)
    signal.setitimer(signal.ITIMER_PROF, _CHECK_INTERVAL_S, _CHECK_INTERVAL_S)
    try:
        yield
    except _LimitExceededError as error:
        signal.setitimer(signal.ITIMER_PROF, 0)  # it must not be raised here again
        raise TooLargeError(
            f"{Path(name).name} is a small file, but explaining it took more than "
            f"{error.what}, as no known trace of its size does",
            f"Check where it comes from, or set {ANY_SIZE}=1 to explain it without a limit",
        ) from None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _peak_bytes() -> int:
    """Peak resident memory of this process."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RSS_UNIT
