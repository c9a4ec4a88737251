"""When an observation begins and ends, for all who observe.

Under `stepwhy run` it lasts as long as the process. In a program that watches a block of its own,
it lasts as long as the block, and there may be several blocks one after the other: the hooks are
put into the frameworks once and sleep in between. A fork, and a block that begins, are alike: what
was seen before belongs to somebody else.

Not every process runs its `atexit` handlers: a fork that calls `os._exit` skips them, and so do
the workers of `multiprocessing`. What waits to be written is written before `os._exit`, too.
"""

from __future__ import annotations

import atexit
import functools
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

    Work = Callable[[], object]

_begins: list[Work] = []
_ends: list[Work] = []
_flushes: list[Work] = []
_block: Path | None = None
_asleep = False


def on_begin(work: Work) -> None:
    """Have something done when an observation begins anew: in a fork, or with a block.

    Args:
        work: Forgets what was seen; called in the order of registration.
    """
    os.register_at_fork(after_in_child=work)
    _begins.append(work)


def on_end(work: Work) -> None:
    """Have something done when the observation ends: with the process, or with a block.

    Args:
        work: Finishes what is open; called in the reverse order of registration.
    """
    atexit.register(work)
    _ends.append(work)


def on_flush(work: Work) -> None:
    """Have something written while the observation goes on, as the process may end at any time.

    Args:
        work: Writes what waits; called in the reverse order of registration.
    """
    if not _flushes:
        _flush_before_exit()
    _flushes.append(work)


def flush() -> None:
    """Write what waits; the observation goes on."""
    for work in reversed(_flushes):
        _try(work)


def _flush_before_exit() -> None:
    """Have `os._exit` write what waits, and nothing else: it may be called because a thread hangs.

    A fork that has seen no step has nothing to write.
    """
    leave: Callable[[int], Any] = os._exit
    if getattr(leave, "is_stepwhys", False):
        return

    @functools.wraps(leave)
    def _exit(status: int) -> None:
        try:
            flush()
        finally:
            leave(status)

    _exit.__module__ = "os"  # under which name it can be pickled
    _exit.is_stepwhys = True  # type: ignore[attr-defined]
    os._exit = _exit  # type: ignore[assignment]


def finish() -> None:
    """Finish what is open, as at the end of the process."""
    for work in reversed(_ends):
        _try(work)


def awake() -> bool:
    """Whether anything is to be observed; not between two blocks."""
    return not _asleep


def run_dir(otherwise: Path) -> Path:
    """Where to write: the run directory of the block that is open.

    Args:
        otherwise: The run directory when there is no block.
    """
    return _block if _block is not None else otherwise


def begin(directory: Path) -> None:
    """A block begins.

    Args:
        directory: Its run directory, absolute.
    """
    global _block, _asleep
    _block, _asleep = directory, False
    for work in _begins:
        _try(work)


def end() -> None:
    """The block ends: everything open is finished, and nothing is observed from here on."""
    global _asleep  # noqa: PLW0603 - whether the process is watched is one fact
    finish()
    _asleep = True


def _try(work: Work) -> None:
    """Do a piece of work; one that fails keeps no other from being done."""
    try:
        work()
    except Exception:
        return
