"""Observing Keras' `fit`: a step is one batch, from the end of the one before it.

The events come from `CallbackList`, which every backend's `fit` drives; the training's own
callbacks, their order, its history and its progress bar are as without the observer. On the
TensorFlow and JAX backends the batch is fetched inside the call that trains on it, so that the
wait for it is not seen; only the profiler shows it.
"""

from __future__ import annotations

import functools
import sys
import weakref
from typing import TYPE_CHECKING

from stepwhy.capture import explicit_steps
from stepwhy.capture.clock import now_ns
from stepwhy.capture.loop import Loop, StepLog, nobody
from stepwhy.capture.recorder import Recorder

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    Call = Callable[..., Any]


class NoWindow:
    """The window of a loop that is not profiled."""

    touched = False
    running = False

    def forget(self) -> None:
        """Begin as in a process without a window."""

    def next_step(self, step: int, *, start: bool) -> None:
        """A step begins."""

    def begin_step(self) -> None:
        """The work of the step begins."""

    def check_age(self) -> None:
        """No step may come for a while."""

    def finish(self) -> None:
        """No step comes."""

    def reopen(self) -> None:
        """The step time has changed for good."""

    def abandon(self) -> None:
        """Keep nothing."""


def backend() -> str:
    """The backend that Keras runs on; legacy Keras knows only one."""
    config = sys.modules.get("keras.src.backend.config")
    return str(config.backend()) if config is not None else "tensorflow"


@functools.cache
def _loop_of(run_dir: str) -> Loop:
    """The loop of the backend's framework."""
    name = backend()
    if name == "tensorflow":
        from stepwhy.capture.tf2.functions import loop_of

        return loop_of(run_dir)
    if name == "jax":
        from stepwhy.capture.jax.functions import loop_of as jax_loop_of

        return jax_loop_of(run_dir)
    version = str(getattr(sys.modules.get(name), "__version__", "unknown"))
    if name == "torch":
        from stepwhy.capture.keras.torch_window import TorchWindow

        recorder = Recorder(run_dir, "pytorch", version, "keras-fit")
        return Loop(recorder, TorchWindow(recorder))
    return Loop(Recorder(run_dir, name, version, "keras-fit"), NoWindow())


class FitObserver:
    """Turns the events of `fit` into steps.

    Args:
        run_dir: The run directory, absolute.
    """

    def __init__(self, run_dir: str) -> None:
        self._run_dir = run_dir
        self._loop: Loop | None = None
        self._waits_between = False
        self._ended_ns = 0
        self._wait_ns: int | None = None
        self._first = 0
        self._said = False

    def told(self, event: Callable[[Loop, Any, Any], None], callbacks: Any, value: Any) -> None:
        """An event of a `fit` in the thread that drives the loop; never raises.

        Args:
            event: Which of the methods below.
            callbacks: The `CallbackList`.
            value: Number of the epoch or batch.
        """
        try:
            loop = self._loop or self._begin()
        except Exception:
            return
        if explicit_steps.telling() or not loop.recorder.alive or not loop.drives():
            return
        try:
            event(loop, callbacks, value)
        except Exception as error:
            loop.step_aside(error)

    def _begin(self) -> Loop:
        """The first event: only now the backend is known for certain."""
        self._loop = _loop_of(self._run_dir)
        self._steps = StepLog(self._loop)
        # On this backend Python fetches the batch before it begins it.
        self._waits_between = backend() == "torch"
        return self._loop

    def epoch_begins(self, loop: Loop, callbacks: Any, _: Any) -> None:
        """The batches of an epoch follow; calls of compiled functions are parts of their steps."""
        # Weakly: a `fit` that raises ends no epoch, but its list of callbacks goes.
        loop.told = weakref.ref(callbacks, functools.partial(_broken_off, loop))
        self._steps.begin()
        self._ended_ns = now_ns()

    def batch_begins(self, loop: Loop, _: Any, batch: Any) -> None:
        """A batch begins."""
        self._first = int(batch)
        if self._waits_between and not loop.light:
            self._wait_ns = now_ns() - self._ended_ns
        self._steps.begin_work()

    def batch_ends(self, loop: Loop, _: Any, batch: Any) -> None:
        """A batch has ended, and so have its callbacks."""
        batches = int(batch) - self._first + 1
        self._steps.end_step(self._wait_ns, batches)
        if self._waits_between and not loop.light:
            self._ended_ns = now_ns()
        if batches > 1 and not self._said:
            self._said = True
            text = f"an observed step is a call that trains on {batches} batches"
            loop.recorder.message("warning", "several-batches", f"{text} (steps_per_execution)")

    def epoch_ends(self, loop: Loop, _: Any, __: Any) -> None:
        """What follows is no training step."""
        loop.told = nobody
        self._steps.end()

    def fit_ends(self, loop: Loop, _: Any, __: Any) -> None:
        """No further step comes."""
        loop.window.finish()


def _broken_off(loop: Loop, fit: object) -> None:
    """A `fit` is gone that has not ended: no step comes, and its window must not stay open."""
    if loop.told is fit:
        loop.told = nobody
        loop.window.finish()


def install(module: ModuleType, run_dir: str) -> None:
    """Observe the `fit` of a freshly imported Keras.

    Args:
        module: `keras.src.callbacks.callback_list`, or `tf_keras.src.callbacks`.
        run_dir: The run directory, absolute.
    """
    observer = FitObserver(run_dir)
    tell = observer.told
    events = module.CallbackList
    _observe(events, "on_epoch_begin", after=functools.partial(tell, observer.epoch_begins))
    _observe(events, "on_train_batch_begin", before=functools.partial(tell, observer.batch_begins))
    _observe(events, "on_train_batch_end", after=functools.partial(tell, observer.batch_ends))
    _observe(events, "on_epoch_end", before=functools.partial(tell, observer.epoch_ends))
    _observe(events, "on_train_end", before=functools.partial(tell, observer.fit_ends))


def _ignore(_: Any, __: Any) -> None:
    """An event that nobody waits for."""


def _observe(owner: Any, name: str, before: Call = _ignore, after: Call = _ignore) -> None:
    """Have a method tell when it begins or has ended normally, with its first argument."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def observed(self: Any, *args: Any, **kwargs: Any) -> Any:
        value = args[0] if args else next(iter(kwargs.values()), 0)
        before(self, value)
        result = original(self, *args, **kwargs)
        after(self, value)
        return result

    setattr(owner, name, observed)
