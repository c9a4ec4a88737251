"""A Ray cluster as a `concurrent.futures.Executor`.

Without an address, Ray is started on this machine, sends no usage statistics, listens on the
loopback interface alone, and lets only those connect who have its token. Tasks whose worker was
killed are done again.

Source: docs.ray.io, "Ray Core API" (`ray.init`, `ray.remote`, `ObjectRef.future`), and "Usage Stats
Collection" (RAY_USAGE_STATS_ENABLED), and "Token authentication" (RAY_AUTH_MODE).
"""

from __future__ import annotations

import logging
import os
import secrets
from concurrent.futures import Executor, Future
from importlib import import_module
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from stepwhy.base.errors import EngineError, LostWorkerError
from stepwhy.base.optional import needs_extra
from stepwhy.engine.executors.local_processes import cores

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
T = TypeVar("T")

# Ray's own retries of a task whose worker has ended, not of one that raises.
_RETRIES = 1
_SETTINGS = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
# Who connects to a cluster that was started here needs its token.
_MODE, _TOKEN = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN"
# Ray listens on all interfaces, unless it believes that machines cannot join: then the address of
# this one is 127.0.0.1. Its name speaks of the systems on which that is the default.
# Source: `ENABLE_RAY_CLUSTER` in ray/_private/ray_constants.py, and its use in services.py, 2.60.
_LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}


class RayCluster(Executor):
    """Does tasks on a Ray cluster.

    Args:
        address: Its address, as for `ray.init`; None for one on this machine that ends with this
            executor.

    Raises:
        MissingPackageError: Ray is not installed.
        EngineError: The cluster cannot be reached or started.
    """

    def __init__(self, address: str | None = None) -> None:
        own = {_MODE: "token", _TOKEN: secrets.token_hex(32), **_LOOPBACK}
        for name, value in (_SETTINGS | ({} if address else own)).items():
            os.environ.setdefault(name, value)
        with needs_extra("ray", "The engine 'ray'"):
            self._ray: Any = import_module("ray")  # optional, and takes a second
        self._is_ours = not self._ray.is_initialized()
        if self._is_ours:
            self._connect(address)
        self._tasks: dict[Callable[..., Any], Any] = {}

    def _connect(self, address: str | None) -> None:
        here = {"num_cpus": cores(), "include_dashboard": False}
        options = {"address": address} if address else {"address": "local", **here}
        try:
            self._ray.init(log_to_driver=False, logging_level=logging.ERROR, **options)
        except Exception as error:  # noqa: BLE001 - of many kinds
            raise EngineError(
                f"the Ray cluster {address or 'of this machine'} cannot be used: {error}",
                "Check the address and that both have the same versions of Ray and Python",
            ) from None

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Give a task; stepwhy must be installed where it is done.

        Args:
            fn: A function of a module.
            args: Its arguments.
            kwargs: Its named arguments.
        """
        if fn not in self._tasks:
            self._tasks[fn] = self._ray.remote(max_retries=_RETRIES, num_cpus=1)(fn)
        future: Future[T] = Future()
        self._tasks[fn].remote(*args, **kwargs).future().add_done_callback(
            lambda done: self._pass_on(done, future)
        )
        return future

    def _pass_on(self, done: Future[T], future: Future[T]) -> None:
        """Set a future like one of Ray."""
        error = done.exception()
        if error is None:
            future.set_result(done.result())
            return
        lost = (self._ray.exceptions.WorkerCrashedError, self._ray.exceptions.OutOfMemoryError)
        if isinstance(error, lost):
            error = LostWorkerError(
                f"the worker that read it ended {_RETRIES + 1} times ({type(error).__name__})",
                "Explain this file alone; it may need more memory than a worker has",
            )
        future.set_exception(error)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002 - as the base class
        """Leave the cluster, and end it if it was started here.

        Args:
            wait: Not used: the tasks of a cluster end with it.
            cancel_futures: Likewise.
        """
        if self._is_ours:
            self._ray.shutdown()
