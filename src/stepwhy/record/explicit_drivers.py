"""Log marked steps, and open profiler windows for them in the framework that computes.

If several frameworks are imported, this is the one that has been seen to compute, or else the first
of PyTorch, JAX, TensorFlow. Without a framework, steps are logged without windows.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Protocol

from stepwhy.record import attach
from stepwhy.record.core.recorder import Recorder
from stepwhy.record.steps import step_marks
from stepwhy.record.steps.loop import KnownSteps, Loop
from stepwhy.record.steps.step_window import NoWindow

if TYPE_CHECKING:
    from collections.abc import Callable

OBSERVER = "stepwhy-step"


class Driver(Protocol):
    """Logs the steps of one framework and opens its windows."""

    recorder: Recorder

    def begin(self) -> None:
        """Begin the first step."""

    def boundary(self) -> None:
        """End a step, and begin the next one."""

    def end(self) -> None:
        """End the sequence of steps, and write the noted ones; `begin` begins another."""

    def touched(self) -> bool:
        """Whether a profiler runs in the current step."""

    def computes(self) -> bool:
        """Whether the framework has been seen to compute."""


class LoopDriver:
    """Marked steps of a `Loop`.

    Args:
        loop: The loop shared with the other observers of the framework.

    Attributes:
        recorder: Recorder of the loop.
    """

    def __init__(self, loop: Loop) -> None:
        self.recorder = loop.recorder
        self._loop = loop
        self._steps = KnownSteps(loop)

    def begin(self) -> None:
        """Begin the first step; calls of compiled functions are parts of steps."""
        self._loop.marker = step_marks.marker
        self._steps.begin()
        self._steps.begin_work()

    def boundary(self) -> None:
        """End a step, and begin the next one."""
        if self._steps.note():
            return
        self._steps.end_step(self._loop.input_wait.take())
        self._steps.begin_work()

    def end(self) -> None:
        """End the sequence of steps."""
        self._steps.end()

    def touched(self) -> bool:
        """Whether a profiler runs in the current step."""
        return self._loop.window.touched

    def computes(self) -> bool:
        """Whether a compiled function has been called."""
        return self._loop.computes()


@functools.cache
def _jax(run_dir: str) -> LoopDriver:
    from stepwhy.record.jax.loop import loop_of

    return LoopDriver(loop_of(run_dir))


def _tensorflow(run_dir: str) -> LoopDriver:
    from tensorflow.python.eager import context

    return _eager(run_dir) if context.executing_eagerly() else _sessions(run_dir)


@functools.cache
def _eager(run_dir: str) -> LoopDriver:
    from stepwhy.record.tf2.loop import loop_of

    return LoopDriver(loop_of(run_dir))


@functools.cache
def _sessions(run_dir: str) -> LoopDriver:
    """Marked steps of a session loop, whose traced runs need no window."""
    from tensorflow.python.framework.versions import VERSION

    recorder = Recorder(run_dir, "tensorflow", str(VERSION), OBSERVER)
    return LoopDriver(Loop(recorder, NoWindow()))


@functools.cache
def _no_framework(run_dir: str) -> LoopDriver:
    """Marked steps of a program without a framework that can be profiled."""
    return LoopDriver(Loop(Recorder(run_dir, "", "", OBSERVER), NoWindow()))


class _Clock:
    """The clock of a PyTorch loop with marked steps, in place of an optimizer."""


class TorchDriver:
    """Marked steps of a PyTorch loop.

    Args:
        run_dir: The run directory that the observers of this process share.

    Attributes:
        recorder: Recorder of the observer.
    """

    def __init__(self, run_dir: str) -> None:
        from stepwhy.record.torch.observer import observer_of

        self._observer = observer_of(run_dir)
        self.recorder = self._observer.recorder
        self._clock = _Clock()

    def begin(self) -> None:
        """Begin the first step."""
        self._observer.steps.begin(self._clock)

    def boundary(self) -> None:
        """End a step, and begin the next one."""
        self._observer.steps.stepped(self._clock)

    def end(self) -> None:
        """End the sequence of steps."""
        self._observer.steps.pause()

    def touched(self) -> bool:
        """Whether a profiler runs in the current step."""
        return self._observer.steps.touched

    def computes(self) -> bool:
        """Whether an optimizer has stepped."""
        return self._observer.steps.calls > 0


# Instrumented module -> driver, in order of preference.
_FRAMEWORKS: dict[str, Callable[[str], Driver]] = {
    "torch.optim.optimizer": functools.cache(TorchDriver),
    "jax._src.api": _jax,
    "tensorflow.python.client.session": _tensorflow,
}


def choose() -> Driver:
    """The driver for the framework that computes."""
    run_dir = attach.run_dir()
    found = [make(run_dir) for name, make in _FRAMEWORKS.items() if attach.is_instrumented(name)]
    return next((d for d in found if d.computes()), found[0] if found else _no_framework(run_dir))
