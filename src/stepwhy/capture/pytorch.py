"""Observing PyTorch: a step ends when the optimizer has stepped; a few steps are profiled.

The clock of the loop is the first optimizer that is seen to step; others (a GAN's second one) only
count as work within its steps. Waiting for a `DataLoader` is added up per step.
"""

from __future__ import annotations

import functools
import threading
import time
import weakref
from typing import TYPE_CHECKING

from stepwhy.capture import lifetime
from stepwhy.capture.clock import now_ns
from stepwhy.capture.pytorch_window import ProfilerWindow
from stepwhy.capture.recorder import Recorder
from stepwhy.capture.rhythm import Rhythm

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    Call = Callable[..., Any]

# Steps to leave alone: the first ones pay for memory and kernel selection.
_EARLIEST_STEP = 4
# An optimizer that has not stepped while another did so often no longer drives the loop.
_SILENT_STEPS = 50


class _InputWait:
    """Time spent waiting for batches, by thread; a prefetching thread's is nobody's wait."""

    def __init__(self) -> None:
        self.seen = False
        self._waited: dict[int, int] = {}

    def add(self, duration_ns: int) -> None:
        """Add to the calling thread's wait."""
        self.seen = True
        thread = threading.get_ident()
        self._waited[thread] = self._waited.get(thread, 0) + duration_ns

    def take(self) -> int | None:
        """The calling thread's wait since the last call, in ns; None where no loader was seen."""
        waited = self._waited.pop(threading.get_ident(), 0)
        return waited if self.seen else None


_input_wait = _InputWait()


class _ThreadClock:
    """CPU time of the thread that drives the loop: what it does not use, it waits."""

    def __init__(self) -> None:
        self._thread = 0
        self._last_ns = 0

    def take(self) -> int | None:
        """The calling thread's CPU time since its last call, ns; None when another called last."""
        now, thread = time.thread_time_ns(), threading.get_ident()
        used = now - self._last_ns if thread == self._thread else None
        self._last_ns, self._thread = now, thread
        return used


class StepObserver:
    """Logs the steps and opens the profiler's window when the loop has settled.

    Args:
        recorder: Where steps go.
        window: The profiler's window.
    """

    def __init__(self, recorder: Recorder, window: ProfilerWindow) -> None:
        self._recorder = recorder
        self._window = window
        self.forget()

    def forget(self) -> None:
        """Begin as in a process that has seen no step (after a fork)."""
        self._clock: weakref.ref[Any] | None = None
        self._others_steps = 0
        self._rhythm = Rhythm()
        self._thread_clock = _ThreadClock()
        self._last_end_ns = 0
        self._steps = 0

    def stepped(self, optimizer: Any) -> None:
        """An optimizer has stepped."""
        if not self._recorder.alive:
            self._window.abandon()
            return
        try:
            if self._is_clock(optimizer):
                self._end_step()
        except Exception as error:
            self._recorder.step_aside(error)

    def _is_clock(self, optimizer: Any) -> bool:
        """Whether this optimizer's steps are the loop's."""
        current = self._clock() if self._clock is not None else None
        if current is optimizer:
            self._others_steps = 0
            return True
        self._others_steps += 1
        if current is not None and self._others_steps < _SILENT_STEPS:
            return False
        self._clock = weakref.ref(optimizer)
        self._others_steps = 0
        self._last_end_ns = 0
        return True

    def _end_step(self) -> None:
        """Log the step that ends here, and let the profiler take its turn."""
        end_ns, start_ns = now_ns(), self._last_end_ns
        wait_ns, cpu_ns = _input_wait.take(), self._thread_clock.take()
        # The first step has no known start: whatever came before it was not the loop.
        if start_ns:
            profiled = self._window.touched
            self._recorder.step(
                f'{{"kind":"step","start_ns":{start_ns},"end_ns":{end_ns},'
                f'"profiled":{int(profiled)},'
                f'"input_wait_ns":{"null" if wait_ns is None else wait_ns},'
                f'"cpu_ns":{"null" if cpu_ns is None else cpu_ns}}}'
            )
            self._steps += 1
            if not profiled:
                self._rhythm.add(end_ns - start_ns)
        self._last_end_ns = end_ns
        self._window.next_step(self._steps, start=self._ready())

    def _ready(self) -> bool:
        """Whether the loop has warmed up."""
        return self._steps >= _EARLIEST_STEP and self._rhythm.settled()


def install_optimizer(module: ModuleType, run_dir: str) -> None:
    """Observe the optimizers of a freshly imported `torch.optim.optimizer`.

    Args:
        module: That module.
        run_dir: The run directory, absolute.
    """
    from torch.version import __version__

    recorder = Recorder(run_dir, "pytorch", str(__version__), "torch-optimizer")
    window = ProfilerWindow(recorder)
    observer = StepObserver(recorder, window)

    _observe_steps(module.Optimizer, observer)
    lifetime.on_begin(window.forget)
    lifetime.on_begin(observer.forget)


def _observe_steps(base: Any, observer: StepObserver) -> None:
    """Call the observer after each `step` of any optimizer.

    Each optimizer class has its `step` wrapped once by `profile_hook_step`, which records it under
    the profiler. The observer goes around that: the global post-hook of optimizers runs inside,
    where a step boundary would cut the recorded range in two.
    """
    wrap = base.profile_hook_step

    @functools.wraps(wrap)
    def profile_hook_step(func: Call) -> Call:
        step = wrap(func)

        @functools.wraps(step)
        def observed(*args: Any, **kwargs: Any) -> Any:
            result = step(*args, **kwargs)
            # A compiled step must come out as it would without us: nothing of this is traced.
            if args and not _is_compiling():
                observer.stepped(args[0])
            return result

        return observed

    base.profile_hook_step = staticmethod(profile_hook_step)


def _is_compiling() -> bool:
    """Whether the caller is being traced by torch.compile."""
    from torch.compiler import is_compiling

    return is_compiling()


def _timed(original: Call) -> Call:
    """A method whose time counts as waiting for input."""

    @functools.wraps(original)
    def timed(*args: Any, **kwargs: Any) -> Any:
        start_ns = now_ns()
        try:
            return original(*args, **kwargs)
        finally:
            _input_wait.add(now_ns() - start_ns)

    return timed


def install_loader(module: ModuleType) -> None:
    """Time the waits for batches of a freshly imported `torch.utils.data.dataloader`.

    Fetching a batch counts, and so does starting an epoch: it may start the workers.

    Args:
        module: That module.
    """
    iterator = module._BaseDataLoaderIter
    iterator.__next__ = _timed(iterator.__next__)
    module.DataLoader.__iter__ = _timed(module.DataLoader.__iter__)


def _recorded(original: Call, name: str) -> Call:
    """A function whose calls a running profiler records under this name."""

    @functools.wraps(original)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        from torch import autograd

        if not autograd._profiler_enabled():  # type: ignore[attr-defined]
            return original(*args, **kwargs)
        with autograd.profiler.record_function(name):
            return original(*args, **kwargs)

    return recorded


def install_serialization(module: ModuleType) -> None:
    """Have the window show the checkpoints that a fresh `torch.serialization` saves.

    Args:
        module: That module.
    """
    functions: Any = module
    functions.save = _recorded(functions.save, "torch.save")
