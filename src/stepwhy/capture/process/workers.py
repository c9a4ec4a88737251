"""Observing worker processes of `multiprocessing`, which end in ways of their own.

A worker runs the finalizers of `multiprocessing.util` and leaves by `os._exit`. The workers of a
`Pool` do not even that when the pool is used with `with`: its end terminates them, once all results
are there. What they have logged is therefore written before each result is handed over.

Source: CPython, Lib/multiprocessing/process.py (`_bootstrap`), popen_fork.py, pool.py (`worker`).
"""

from __future__ import annotations

import functools

from stepwhy.capture.process import lifetime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

# Before the finalizers of queues, which have lower priorities.
_FIRST = 100


def install_util(module: ModuleType) -> None:
    """Have workers finish what is open when they end.

    Args:
        module: `multiprocessing.util`, freshly imported.
    """
    util: Any = module
    # Held by the table of forks as long as the module lives, which is as long as this process.
    util.register_after_fork(_finish_as_worker, _finish_as_worker)


def _finish_as_worker(_: object) -> None:
    """In a worker: finish what is open before its queues are closed."""
    from multiprocessing import util

    util.Finalize(None, lifetime.finish, exitpriority=_FIRST)


def install_pool(module: ModuleType) -> None:
    """Have the workers of pools write what waits before they hand over a result.

    Args:
        module: `multiprocessing.pool`, freshly imported.
    """
    functions: Any = module
    original = functions.worker

    @functools.wraps(original)
    def worker(inqueue: Any, outqueue: Any, *args: Any, **kwargs: Any) -> Any:
        # The threads of a `ThreadPool` have plain queues, and end with their process.
        results = _Results(outqueue) if hasattr(outqueue, "_reader") else outqueue
        return original(inqueue, results, *args, **kwargs)

    functions.worker = worker


class _Results:
    """The queue of a pool's results.

    Args:
        queue: What it is without the observer.
    """

    def __init__(self, queue: Any) -> None:
        self._queue = queue

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    def put(self, result: Any) -> None:
        """Hand over a result."""
        lifetime.flush()
        self._queue.put(result)
