"""A bound on what a small input may cost, however hostile its content is.

Traces of less than 10 MB are explained in a few seconds. A file of that size can be built to take
minutes, or gigabytes, in ways that nobody has thought of yet; this stops it.
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
from typing import TYPE_CHECKING, ParamSpec

from stepwhy.errors import TooLargeError
from stepwhy.inputs.memory import ANY_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    P = ParamSpec("P")

# Inputs of this many bytes or more may take as long as they need.
_SMALL_BYTES = 10_000_000
# A little below the 20 s and the 1 GB that no small input may take: both grow between two looks.
# Recorded traces of this size take up to 2 s and 200 MB.
_MOST_CPU_S = 18.0
_MOST_BYTES = 800_000_000
_LOOK_EVERY_S = 0.1  # of processor time
_CLEAN_UP_S = 0.5  # of processor time, after the bound was exceeded
_RSS_UNIT = 1 if sys.platform == "darwin" else 1024


class _CostsTooMuch(BaseException):
    """Raised wherever the main thread is; not an `Exception`, so that no pass takes it for its own.

    Args:
        what: What was exceeded.
    """

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


def bounded(command: Callable[P, None]) -> Callable[P, None]:
    """Stop a command when a small input makes it take longer, or more memory, than any trace does.

    The command's argument `path` or `paths` names the input. Setting `STEPWHY_ANY_SIZE=1` lifts
    the bound.
    """

    @functools.wraps(command)
    def run(*args: P.args, **options: P.kwargs) -> None:
        named = options.get("paths", options.get("path"))
        paths = (named,) if isinstance(named, str) else named
        if not isinstance(paths, tuple) or not _are_small(paths):
            return command(*args, **options)
        with _watched(paths[0]):
            return command(*args, **options)

    return run


def _are_small(paths: tuple[str, ...]) -> bool:
    """Whether the inputs are files, and together smaller than the bound applies to."""
    if os.environ.get(ANY_SIZE) == "1":
        return False
    try:
        files = [Path(path).stat() for path in paths]
    except (OSError, ValueError):  # not a name of a file; opening it says so
        return False
    return all(S_ISREG(f.st_mode) for f in files) and sum(f.st_size for f in files) < _SMALL_BYTES


@contextmanager
def _watched(name: str) -> Iterator[None]:
    """Look at the process's own cost every tenth of a second of processor time."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or not hasattr(signal, "setitimer"):
        yield  # signals reach the main thread only, and Windows has no such timer
        return
    began_s, began_bytes = time.process_time(), _peak_bytes()

    def look(_signal: int, _frame: FrameType | None) -> None:
        exceeded = ""
        if time.process_time() - began_s > _MOST_CPU_S:
            exceeded = f"{_MOST_CPU_S:g} s of processor time"
        elif _peak_bytes() > max(_MOST_BYTES, began_bytes):
            exceeded = f"{_MOST_BYTES // 1_000_000} MB of memory"
        if exceeded:
            # What cleans up is not interrupted soon; what is raised in a finalizer is lost.
            signal.setitimer(signal.ITIMER_PROF, _CLEAN_UP_S, _CLEAN_UP_S)
            raise _CostsTooMuch(exceeded)

    before = signal.signal(signal.SIGPROF, look)
    signal.setitimer(signal.ITIMER_PROF, _LOOK_EVERY_S, _LOOK_EVERY_S)
    try:
        yield
    except _CostsTooMuch as error:
        raise TooLargeError(
            f"{Path(name).name} is a small file, but explaining it took more than "
            f"{error.what}, as no known trace of its size does",
            f"Check where it comes from, or set {ANY_SIZE}=1 to explain it whatever it takes",
        ) from None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _peak_bytes() -> int:
    """Largest resident size that this process has had."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RSS_UNIT
