"""When an observation begins and ends: callbacks for all observers.

Under `stepwhy run` an observation lasts as long as the process. In a program that watches a block
of its own, it lasts as long as the block, and several blocks may follow each other: frameworks are
instrumented once, and the observers are inactive in between. After a fork, and in a new block, what
was seen before belongs to another observation.

Not every process runs its `atexit` handlers: a fork that calls `os._exit` skips them, as do workers
of `multiprocessing`. Pending records are therefore also written before `os._exit`.
"""

from __future__ import annotations

import atexit
import functools
import os

from stepwhy.record.core.compiled_code import never_compiled, wrapper
from stepwhy.record.core.wrappers import Builtin, wraps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

    Callback = Callable[[], object]

_begins: list[Callback] = []
_ends: list[Callback] = []
_flushes: list[Callback] = []
_forks: list[tuple[Callback, Callback]] = []
_block: Path | None = None
_inactive = False


def on_begin(work: Callback) -> None:
    """Register a callback for the start of another observation: in a fork, or with a block.

    Args:
        work: Discards earlier state; callbacks run in order of registration.
    """
    os.register_at_fork(after_in_child=work)
    _begins.append(work)


def on_fork(before: Callback, after: Callback) -> None:
    """Register callbacks for forks of this process, which run on the thread that forks.

    Args:
        before: Called before each fork, of whatever thread.
        after: Called after it, in the parent only.
    """
    _notice_forks()
    _forks.append((before, after))


@functools.cache
def _notice_forks() -> None:
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork)


@never_compiled
def _before_fork() -> None:
    for before, _ in _forks:
        _try(before)


@never_compiled
def _after_fork() -> None:
    for _, after in reversed(_forks):
        _try(after)


def on_end(work: Callback) -> None:
    """Register a callback for the end of the observation: with the process, or with a block.

    Args:
        work: Finishes open work; callbacks run in reverse order of registration.
    """
    atexit.register(work)
    _ends.append(work)


def on_flush(work: Callback) -> None:
    """Register a callback that writes pending records while the observation continues.

    Args:
        work: Writes them; callbacks run in reverse order of registration.
    """
    if not _flushes:
        _flush_before_exit()
    _flushes.append(work)


@never_compiled
def flush() -> None:
    """Write pending records; the observation continues."""
    for work in reversed(_flushes):
        _try(work)


def _flush_before_exit() -> None:
    """Make `os._exit` write pending records, but nothing else: it may be called due to a hang.

    A fork that has seen no step has nothing to write.
    """
    leave: Callable[[int], Any] = os._exit
    if getattr(leave, "is_stepwhys", False):
        return

    @wrapper
    @wraps(leave)
    def _exit(status: int) -> None:
        try:
            flush()
        finally:
            leave(status)

    _exit.is_stepwhys = True  # type: ignore[attr-defined]
    os._exit = Builtin(_exit, "os", "_exit")


def finish() -> None:
    """Finish open work, as at the end of the process."""
    for work in reversed(_ends):
        _try(work)


def is_active() -> bool:
    """Whether the process is observed now; False between two blocks."""
    return not _inactive


def run_dir(otherwise: Path) -> Path:
    """The run directory of the open block.

    Args:
        otherwise: The run directory if there is no block.
    """
    return _block if _block is not None else otherwise


def begin(directory: Path) -> None:
    """Begin a block.

    Args:
        directory: Its run directory, absolute.
    """
    global _block, _inactive
    _block, _inactive = directory, False
    for work in _begins:
        _try(work)


def end() -> None:
    """End the block: finish open work, and observe nothing from here on."""
    global _inactive  # noqa: PLW0603 - the process has one state
    finish()
    _inactive = True


def _try(work: Callback) -> None:
    """Run a callback; a failure must not prevent the others."""
    try:
        work()
    except Exception:
        return
