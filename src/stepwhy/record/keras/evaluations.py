"""Log the calls of Keras' `evaluate` and `predict` that interrupt a training; note `compile`.

`fit` calls `evaluate` for its validation data; a callback or a loop of the program may call both.
"""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from stepwhy.record.core.clock import now_ns
from stepwhy.record.core.user_code import user_call, user_line
from stepwhy.record.keras.backend import loop_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    Call = Callable[..., Any]

# A call per step must not fill the event log.
_MOST_EVENTS = 400
# Argument that only `fit` passes.
_OF_FIT = "_use_cached_eval_dataset"


class EvaluationLog:
    """The calls of this process; those before the first step are no part of the training.

    Args:
        run_dir: The run directory, absolute.
    """

    def __init__(self, run_dir: str) -> None:
        self._run_dir = run_dir
        self._events = 0
        self._batches = 0

    def began(self) -> None:
        """A call begins."""
        self._batches = 0

    def batch_ended(self, _: Any, batch: Any) -> None:
        """A batch of a call has ended.

        Args:
            batch: Its number in the call, from 0.
        """
        with contextlib.suppress(TypeError):  # programs may call it with anything
            self._batches = batch + 1

    def ended(self, name: str, start_ns: int) -> None:
        """A call has returned; never raises.

        Args:
            name: 'validation' for a call by `fit`, else the method.
            start_ns: When it began.
        """
        try:
            loop = loop_of(self._run_dir)
        except Exception:
            return
        if loop.lines and self._events < _MOST_EVENTS and loop.driven_here():
            loop.guard(lambda: self._log(loop.recorder, name, start_ns))

    def _log(self, recorder: Any, name: str, start_ns: int) -> None:
        self._events += 1
        recorder.event(
            "evaluation",
            name=name,
            start_ns=start_ns,
            end_ns=now_ns(),
            source=user_line(),
            count=self._batches or None,
        )


@functools.cache
def log_of(run_dir: str) -> EvaluationLog:
    """The log of this process."""
    return EvaluationLog(run_dir)


_compiled: WeakKeyDictionary[Any, tuple[str, str]] = WeakKeyDictionary()


def compile_of(model: Any) -> tuple[str, str]:
    """Line and text of the call that compiled a model, see `user_call`; '' for what is unknown."""
    return ("", "") if model is None else _compiled.get(model, ("", ""))


def observe_evaluations(module: ModuleType, run_dir: str) -> None:
    """Log the calls of `evaluate` and `predict`, and note those of `compile`.

    Args:
        module: `keras.src.models.model`, or `tf_keras.src.engine.training`.
        run_dir: The run directory, absolute.
    """
    log = log_of(run_dir)
    for name in ("evaluate", "predict", "compile"):
        # Keras does not compile a model that it loads if the `compile` of its class is not that of
        # the class which defines it.
        owner = next((kind for kind in module.Model.__mro__ if name in vars(kind)), None)
        if owner is not None:
            original = getattr(owner, name)
            made = _noted(original) if name == "compile" else _timed(original, name, log)
            setattr(owner, name, made)


def _noted(original: Call) -> Call:
    @functools.wraps(original)
    def compile(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: A001 - its name
        with contextlib.suppress(Exception):
            _compiled[self] = user_call("compile")
        return original(self, *args, **kwargs)

    return compile


def _timed(original: Call, name: str, log: EvaluationLog) -> Call:
    @functools.wraps(original)
    def timed(*args: Any, **kwargs: Any) -> Any:
        log.began()
        start_ns = now_ns()
        result = original(*args, **kwargs)
        log.ended("validation" if kwargs.get(_OF_FIT) else name, start_ns)
        return result

    return timed
