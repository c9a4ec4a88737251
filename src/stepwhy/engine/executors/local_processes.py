"""Processes of this machine as a `concurrent.futures.Executor` that survives their death.

`ProcessPoolExecutor` fails as a whole when one of its processes is killed, and imports the user's
program into each of them. Here, a task whose process was killed is done again by a new one. If it
kills that one, too, it fails alone.
"""

from __future__ import annotations

import os
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from subprocess import DEVNULL, PIPE
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from stepwhy.base import children
from stepwhy.base.errors import LostWorkerError
from stepwhy.engine.executors.worker import receive, send

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    Task = tuple[Future[Any], tuple[Any, ...]]

P = ParamSpec("P")
T = TypeVar("T")

_TRIES = 2


def cores() -> int:
    """Number of cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


class LocalProcesses(Executor):
    """Does tasks in processes of this machine.

    Args:
        workers: Number of processes; by default one per core.
    """

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or cores()
        self._tasks: SimpleQueue[Task | None] = SimpleQueue()
        self._threads: list[Thread] = []
        self._processes: set[children.Process] = set()
        self._lock = Lock()
        self._is_over = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Give a task; it and its arguments must be known to `pickle`.

        Args:
            fn: A function of a module.
            args: Its arguments.
            kwargs: Its named arguments.
        """
        if self._is_over:
            raise RuntimeError("the processes have been shut down")
        future: Future[T] = Future()
        self._tasks.put((future, (fn, args, kwargs)))
        if len(self._threads) < self.workers:
            self._threads.append(Thread(target=self._serve, name="stepwhy-worker", daemon=True))
            self._threads[-1].start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes after the tasks that were given.

        Args:
            wait: Wait until they have ended.
            cancel_futures: Leave out tasks that have not begun.
        """
        self._is_over = True
        while cancel_futures and not self._tasks.empty():
            task = self._tasks.get()
            if task is not None:
                task[0].cancel()
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads if wait else ():
            thread.join()

    def kill(self) -> None:
        """End the processes at once; their tasks fail."""
        self._is_over = True
        with self._lock:
            for process in self._processes:
                process.kill()
        self.shutdown(cancel_futures=True)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.shutdown()
        else:
            self.kill()

    def _serve(self) -> None:
        """Do tasks with one process, until there are no more."""
        process = None
        while (task := self._tasks.get()) is not None:
            future, call = task
            if future.set_running_or_notify_cancel():
                process = self._do(future, call, process)
        if process is not None:
            self._end(process)

    def _do(
        self, future: Future[Any], call: tuple[Any, ...], process: children.Process | None
    ) -> children.Process | None:
        """Do a task; returns the process, None if it has ended."""
        for _ in range(_TRIES):
            try:
                process = process or self._start()
                is_done, value = _asked(process, call)
            except (OSError, EOFError) as error:
                ended = (
                    f"{type(error).__name__}: {error}" if process is None else self._end(process)
                )
                process = None
                if self._is_over:
                    break
                continue
            except Exception as error:  # noqa: BLE001 - raised where the task was given
                future.set_exception(error)
                return process
            if is_done:
                future.set_result(value)
            else:
                future.set_exception(value)
            return process
        future.set_exception(
            LostWorkerError(
                f"the process that read it ended {_TRIES} times ({ended})",
                "Explain this file alone; it may need more memory than is free",
            )
        )
        return None

    def _start(self) -> children.Process:
        process = children.start(
            children.module_command("stepwhy.engine.executors.worker"),
            variables={"OPENBLAS_NUM_THREADS": "1"},
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
        )
        with self._lock:
            self._processes.add(process)
            if self._is_over:
                process.kill()
        return process

    def _end(self, process: children.Process) -> str:
        """Let a process end; returns how it has ended."""
        with self._lock:
            self._processes.discard(process)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                _close(pipe)
        code = process.wait()
        return f"signal {-code}" if code < 0 else f"exit code {code}"


def _asked(process: children.Process, call: tuple[Any, ...]) -> tuple[bool, Any]:
    """What a process answers; raises OSError or EOFError if it has ended."""
    if process.stdin is None or process.stdout is None:
        raise EOFError
    send(process.stdin, call)  # type: ignore[arg-type] # buffered, so binary
    found: tuple[bool, Any] = receive(process.stdout)  # type: ignore[arg-type] # likewise
    return found


def _close(pipe: Any) -> None:
    try:
        pipe.close()
    except OSError:  # what could not be written to a process that has ended
        return
