"""Observe worker processes of `multiprocessing`, which end without `atexit` handlers.

A worker runs the finalizers of `multiprocessing.util` and calls `os._exit`. Workers of a `Pool` in
a `with` statement do not even do that: the end of the block terminates them once all results have
arrived. Their pending records are therefore written before each result is sent.

Source: CPython, Lib/multiprocessing/process.py (`_bootstrap`), popen_fork.py, pool.py (`worker`).
"""

from __future__ import annotations

import functools

from stepwhy.record.core.process import lifetime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

# Above the priorities of the finalizers of queues.
_PRIORITY = 100


def observe_workers(module: ModuleType, _run_dir: str) -> None:
    """Let workers finish open work before they end, by a finalizer of `multiprocessing.util`."""
    util: Any = module
    # The registry of forks holds its key weakly; a function lives as long as this process.
    util.register_after_fork(_finish_as_worker, _finish_as_worker)


def _finish_as_worker(_: object) -> None:
    """In a worker: finish open work before its queues are closed."""
    from multiprocessing import util

    util.Finalize(None, lifetime.finish, exitpriority=_PRIORITY)


def observe_pools(module: ModuleType, _run_dir: str) -> None:
    """Let workers of `multiprocessing.pool` write pending records before they send a result."""
    functions: Any = module
    original = functions.worker

    @functools.wraps(original)
    def worker(inqueue: Any, outqueue: Any, *args: Any, **kwargs: Any) -> Any:
        # The threads of a `ThreadPool` have plain queues, and end with their process.
        results = _ResultQueue(outqueue) if hasattr(outqueue, "_reader") else outqueue
        return original(inqueue, results, *args, **kwargs)

    functions.worker = worker


class _ResultQueue:
    """Wrapper of a pool's result queue.

    Args:
        queue: The original queue.
    """

    def __init__(self, queue: Any) -> None:
        self._queue = queue

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    def put(self, result: Any) -> None:
        """Write pending records, then send a result."""
        lifetime.flush()
        self._queue.put(result)
