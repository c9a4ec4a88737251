"""When an observation begins and ends, for all who observe.

Under `stepwhy run` it lasts as long as the process. In a program that watches a block of its own,
it lasts as long as the block, and there may be several blocks one after the other: the hooks are
put into the frameworks once and sleep in between. A fork, and a block that begins, are alike: what
was seen before belongs to somebody else.
"""

from __future__ import annotations

import atexit
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

    Work = Callable[[], object]

_begins: list[Work] = []
_ends: list[Work] = []
_followed: list[object] = []
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
    _follow_workers()


def _follow_workers() -> None:
    """Have the processes of `multiprocessing` end as others do: they leave without `atexit`."""
    util: Any = sys.modules.get("multiprocessing.util")
    if util is None or _followed:
        return
    _followed.append(util)
    util.register_after_fork(_finish_as_worker, _finish_as_worker)
    if sys.modules["multiprocessing.process"].parent_process() is not None:
        _finish_as_worker(None)


def _finish_as_worker(_: object) -> None:
    """In such a process: finish what is open when it ends, before its queues are closed."""
    sys.modules["multiprocessing.util"].Finalize(None, _finish, exitpriority=100)


def _finish() -> None:
    """Finish what is open."""
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
    _finish()
    _asleep = True


def _try(work: Work) -> None:
    """Do a piece of work; one that fails keeps no other from being done."""
    try:
        work()
    except Exception:
        return
