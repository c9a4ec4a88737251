"""Start and stop `torch.profiler`, and leave nothing of it behind: no output, no thread."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING

from stepwhy.record.torch import device, request_thread
from stepwhy.record.torch.function_modes import hidden_from_modes
from stepwhy.record.torch.own_profilers import own_profilers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from stepwhy.record.core.forks import Forks

_LOG_LEVEL_VARIABLE = "KINETO_LOG_LEVEL"


class Kineto:
    """The profiler of a window, which may be started again after it has stopped.

    Args:
        forks: The forks of the process, none of which may fall into a start or a stop.

    Attributes:
        profiler: The `torch.profiler.profile` that runs; None if none does.
    """

    def __init__(self, forks: Forks) -> None:
        self._forks = forks
        self._own_profilers = own_profilers()
        self._is_recording = False
        self.forget()

    def forget(self) -> None:
        """Start over, as in a process without a profiler (after a fork)."""
        if self._is_recording:
            # A copy of a profiler that the parent could not stop crashes a child at its end.
            from torch._C import _autograd

            with contextlib.suppress(Exception):
                if _autograd._profiler_enabled():
                    _autograd._disable_profiler()
        self._is_recording = False
        self._threads: set[str] = set()
        self.profiler: Any = None

    def start(self, **options: Any) -> None:
        """Start a profiler.

        Args:
            options: Arguments of `torch.profiler.profile`.
        """
        from torch.profiler import profile

        profiler = profile(**options)
        before = request_thread.threads()
        with (
            _quiet(),
            self._own_profilers.starting_stepwhys(),
            self._forks.switching,
            hidden_from_modes(),
        ):
            self._is_recording = True
            profiler.start()
            self.profiler = profiler
        self._threads = request_thread.threads() - before

    def step(self) -> None:
        """Pass a step boundary to the profiler."""
        with hidden_from_modes():
            self.profiler.step()

    def stop(self, *, detach: bool) -> Any:
        """Stop the profiler.

        Args:
            detach: Whether to let a device be as fast as before.

        Returns:
            The stopped one; None if none ran.
        """
        try:
            with self._forks.switching:
                profiler, self.profiler = self.profiler, None
                if profiler is not None:
                    context = device.detaching_cupti() if detach else contextlib.nullcontext()
                    with context, hidden_from_modes():
                        profiler.stop()
        finally:
            self._is_recording = False
            self.stop_request_thread()
        return profiler

    def discard(self, *, detach: bool) -> None:
        """Stop the profiler and keep nothing; never raises.

        Args:
            detach: Whether to let a device be as fast as before.
        """
        with contextlib.suppress(Exception):
            self.stop(detach=detach)

    def stop_request_thread(self) -> None:
        """Stop what the profiler has started and would leave running; never raises."""
        threads, self._threads = self._threads, set()
        if threads:
            with contextlib.suppress(Exception):
                request_thread.stop(threads)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep Kineto from logging its stages to the training's stderr.

    Kineto reads the variable once, when a profiler first starts.
    """
    if _LOG_LEVEL_VARIABLE in os.environ:
        yield
        return
    os.environ[_LOG_LEVEL_VARIABLE] = "99"
    try:
        yield
    finally:
        del os.environ[_LOG_LEVEL_VARIABLE]


def recording_waits() -> dict[str, Any]:
    """Options of a profiler that records which stream waits for which event, if it can.

    Versions before 2.1 have no such option.
    """
    try:
        from torch._C._profiler import _ExperimentalConfig

        config = _ExperimentalConfig(enable_cuda_sync_events=True)
    except (ImportError, TypeError):
        return {}
    return {"experimental_config": config}


def graph_task() -> int:
    """Number of the backward pass of the calling thread; -1 outside of any."""
    core: Any = sys.modules.get("torch._C")
    number = getattr(core, "_current_graph_task_id", None)
    return -1 if number is None else int(number())
