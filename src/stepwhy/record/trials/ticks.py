"""Call a function at the end of each step.

A step ends with a step of the first optimizer of PyTorch, with a batch of Keras' `fit`, or with a
run of a TensorFlow 1-style session.
"""

from __future__ import annotations

import functools
import os
import threading
import weakref

from stepwhy.record.core import import_hooks
from stepwhy.record.core.process import lifetime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from stepwhy.record.trials.reports import Trial


class Ticks:
    """The steps of this process.

    Args:
        tick: Called at the end of each; its exceptions are ignored, `SystemExit` is not.
        begin: Called where the next step begins later than the previous one ended.
    """

    def __init__(self, tick: Callable[[], object], begin: Callable[[], object] = int) -> None:
        self._tick, self._begin = tick, begin
        self._clock: weakref.ref[Any] | None = None
        self._in_fit = False

    def of_torch(self, module: Any) -> None:
        """Follow the optimizers of `torch.optim.optimizer`."""
        module.register_optimizer_step_post_hook(self._stepped)

    def _stepped(self, optimizer: Any, *_: Any) -> None:
        if self._in_fit or threading.current_thread() is not threading.main_thread():
            return
        if self._clock is None or self._clock() is None:
            self._clock = weakref.ref(optimizer)
        if self._clock() is optimizer:
            self._call()

    def of_keras(self, module: Any) -> None:
        """Follow the batches of `fit`."""
        _after(module.CallbackList, "on_epoch_begin", self._begin_epoch)
        _after(module.CallbackList, "on_train_batch_end", self._call)

    def _begin_epoch(self) -> None:
        self._in_fit = True
        self._begin()

    def of_sessions(self, module: Any) -> None:
        """Follow the runs of TensorFlow 1-style sessions; a step may consist of several."""
        _after(module.BaseSession, "run", self._call)

    def of_all(self) -> None:
        """Follow all of them."""
        import_hooks.after_import("torch.optim.optimizer", self.of_torch)
        import_hooks.after_import("keras.src.callbacks.callback_list", self.of_keras)
        import_hooks.after_import("tensorflow.python.client.session", self.of_sessions)

    def _call(self) -> None:
        try:
            self._tick()
        except Exception:
            return


def _after(owner: Any, name: str, call: Callable[[], object]) -> None:
    """Call a function after each call of a method."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def method(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        call()
        return result

    setattr(owner, name, method)


def report_count(trial: Trial) -> None:
    """Report at the end of the process how many steps were seen here.

    Args:
        trial: The trial.
    """
    seen, pid = [0], os.getpid()

    def tick() -> None:
        seen[0] += 1

    def write() -> None:
        if seen[0] and os.getpid() == pid:
            trial.write({"ticks": seen[0]})

    Ticks(tick).of_all()
    lifetime.on_end(write)


def end_after(steps: int) -> None:
    """End the program, as `sys.exit` does, after so many steps.

    Args:
        steps: Number of steps.
    """
    left = [steps]

    def tick() -> None:
        left[0] -= 1
        if left[0] == 0:
            raise SystemExit(0)

    Ticks(tick).of_all()
