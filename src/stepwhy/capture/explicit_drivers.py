"""What logs told steps and opens the windows for them: the framework that computes.

Of several imported frameworks it is the one that has been seen to compute; of those that have not,
the first of PyTorch, JAX, TensorFlow. Without any there are steps and no windows.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Protocol

from stepwhy.capture import attach, explicit_steps
from stepwhy.capture.keras.fit import NoWindow
from stepwhy.capture.loop import Loop, StepLog
from stepwhy.capture.recorder import Recorder

if TYPE_CHECKING:
    from collections.abc import Callable
OBSERVER = "stepwhy-step"


class Driver(Protocol):
    """What logs the steps of one framework and opens its windows."""

    recorder: Recorder

    def begin(self) -> None:
        """The first step begins here."""

    def boundary(self) -> None:
        """A step ends here, and the next one begins."""

    def touched(self) -> bool:
        """Whether a profiler watches the step under way."""

    def computes(self) -> bool:
        """Whether the framework has been seen at work."""


class LoopDriver:
    """Told steps of a `Loop`.

    Args:
        loop: What is shared with the other observers of the framework.

    Attributes:
        recorder: The loop's.
    """

    def __init__(self, loop: Loop) -> None:
        self.recorder = loop.recorder
        self._loop = loop
        self._steps = StepLog(loop)

    def begin(self) -> None:
        """The first step begins here; calls of compiled functions are parts of steps."""
        self._loop.told = explicit_steps.teller
        self._steps.begin()
        self._steps.begin_work()

    def boundary(self) -> None:
        """A step ends here, and the next one begins."""
        self._steps.end_step(self._loop.input_wait.take())
        self._steps.begin_work()

    def touched(self) -> bool:
        """Whether a profiler watches the step under way."""
        return self._loop.window.touched

    def computes(self) -> bool:
        """Whether a compiled function has been called."""
        return self._loop.computes()


@functools.cache
def _jax(key: str) -> LoopDriver:
    from stepwhy.capture.jax import functions

    return LoopDriver(functions.loop_of(key))


def _tensorflow(key: str) -> LoopDriver:
    from tensorflow.python.eager import context

    return _eager(key) if context.executing_eagerly() else _sessions(key)


@functools.cache
def _eager(key: str) -> LoopDriver:
    from stepwhy.capture.tf2 import functions

    return LoopDriver(functions.loop_of(key))


@functools.cache
def _sessions(key: str) -> LoopDriver:
    """Sessions trace runs of their own, so that there is no window here."""
    from tensorflow.python.framework.versions import VERSION

    recorder = Recorder(key, "tensorflow", str(VERSION), OBSERVER)
    return LoopDriver(Loop(recorder, NoWindow()))


@functools.cache
def _plain(key: str) -> LoopDriver:
    """No framework that can be profiled."""
    return LoopDriver(Loop(Recorder(key, "", "", OBSERVER), NoWindow()))


class _Clock:
    """Stands for the optimizer whose steps are the loop's."""


class TorchDriver:
    """Told steps of a PyTorch loop: a clock of its own in the place of an optimizer.

    Args:
        key: The run directory that the observers of this process share.

    Attributes:
        recorder: That of the observer.
    """

    def __init__(self, key: str) -> None:
        from stepwhy.capture.torch import observer

        observation = observer._observation(key)
        self.recorder = observation.recorder
        self._observation = observation
        self._clock = _Clock()

    def begin(self) -> None:
        """The first step begins here."""
        self._observation.steps.begin(self._clock)

    def boundary(self) -> None:
        """A step ends here, and the next one begins."""
        self._observation.steps.stepped(self._clock)

    def touched(self) -> bool:
        """Whether a profiler watches the step under way."""
        return self._observation.window.touched

    def computes(self) -> bool:
        """Whether an optimizer has stepped."""
        return self._observation.steps.calls > 0


_torch = functools.cache(TorchDriver)


# In this order where none has been seen at work; by the modules that tell that one is there.
_FRAMEWORKS: dict[str, Callable[[str], Driver]] = {
    "torch.optim.optimizer": _torch,
    "jax._src.api": _jax,
    "tensorflow.python.client.session": _tensorflow,
}


def choose() -> Driver:
    """What drives the loop that is being told of."""
    key = attach.run_dir()
    found = [make(key) for module, make in _FRAMEWORKS.items() if attach.is_hooked(module)]
    return next((d for d in found if d.computes()), found[0] if found else _plain(key))
