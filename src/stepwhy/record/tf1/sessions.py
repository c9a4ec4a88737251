"""Wrap the run calls of TensorFlow 1-style sessions with their observer.

A traced run is never repeated, whatever it raises: the update may have been applied already.
"""

from __future__ import annotations

import contextlib
import functools
from time import perf_counter_ns
from typing import TYPE_CHECKING

from stepwhy.record.core.process import lifetime
from stepwhy.record.core.recorder import Recorder
from stepwhy.record.core.user_code import user_call
from stepwhy.record.core.wrappers import wraps
from stepwhy.record.tf1.queues import reader_maker
from stepwhy.record.tf1.session_observer import FAILED, SessionObserver
from stepwhy.record.tf1.window import copy_metadata

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    Run = Callable[..., Any]

# What programs call to make a session.
_MAKERS = ("Session", "InteractiveSession", "MonitoredTrainingSession", "MonitoredSession")


def _observed_run(original: Run, observer: SessionObserver) -> Run:
    """Wrap `BaseSession.run` with the observer."""

    @functools.wraps(original)
    def run(
        self: Any,
        fetches: Any,
        feed_dict: Any = None,
        options: Any = None,
        run_metadata: Any = None,
    ) -> Any:
        if observer.notes and options is None and observer.begin_note(fetches, feed_dict):
            start_ns = perf_counter_ns()
            try:
                result = original(self, fetches, feed_dict, None, run_metadata)
            except BaseException:
                observer.end_note(start_ns, FAILED)
                raise
            observer.end_note(start_ns)
            return result
        pending = observer.begin(self, fetches, feed_dict, options, run_metadata)
        if pending is None:
            return original(self, fetches, feed_dict, options, run_metadata)
        failed = True
        try:
            if pending.options is None:
                result = original(self, fetches, feed_dict, options, run_metadata)
                if pending.own is not None:
                    pending.values = fetches, feed_dict, result
            else:
                result = original(self, fetches, feed_dict, pending.options, pending.metadata)
                pending.values = fetches, feed_dict, result
                copy_metadata(pending.metadata, run_metadata, options)
            failed = False
            return result
        finally:
            observer.end(pending, self, failed)

    return run


def _observed_make_callable(original: Run, observer: SessionObserver) -> Run:
    """Wrap `BaseSession.make_callable` so that its callables are observed.

    A callable with feeds goes through `run`, which is observed already. One that takes options is
    left to the user.
    """

    @functools.wraps(original)
    def make_callable(
        self: Any, fetches: Any, feed_list: Any = None, accept_options: bool = False
    ) -> Any:
        plain = original(self, fetches, feed_list, accept_options)
        if feed_list is not None or accept_options:
            return plain

        @functools.wraps(plain)
        def observed() -> Any:
            pending = observer.begin(self, fetches, None, None)
            if pending is None:
                return plain()
            failed = True
            try:
                if pending.options is None:
                    result = plain()
                else:
                    result = self.run(fetches, None, pending.options, pending.metadata)
                    pending.values = fetches, None, result
                failed = False
                return result
            finally:
                observer.end(pending, self, failed)

        return observed

    return make_callable


def _noted_init(original: Run, observer: SessionObserver) -> Run:
    """Wrap `BaseSession.__init__` so that the program's call that makes a session is noted."""

    @wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        with contextlib.suppress(Exception):
            observer.made[self] = user_call(*_MAKERS)
        original(self, *args, **kwargs)

    return init


@functools.cache
def _observer_of(run_dir: str) -> SessionObserver:
    """The observer of this process."""
    from importlib.metadata import PackageNotFoundError, version

    from tensorflow.core.protobuf import config_pb2

    name = "unknown"
    for package in ("tensorflow", "tensorflow-cpu", "tensorflow-intel", "tf-nightly"):
        try:
            name = version(package)
            break
        except PackageNotFoundError:
            continue
    recorder = Recorder(run_dir, "tensorflow", name, "tf1-session")
    return SessionObserver(recorder, config_pb2, reader_maker(config_pb2))


def observe_optimizers(module: ModuleType, run_dir: str) -> None:
    """Note how the program makes the optimizers of `tensorflow.python.training.optimizer`."""
    from stepwhy.record.keras.optimizers import note_making

    note_making(module.Optimizer, "apply_gradients", _observer_of(run_dir).recorder)


def observe_sessions(module: ModuleType, run_dir: str) -> None:
    """Observe the sessions of `tensorflow.python.client.session`."""
    observer = _observer_of(run_dir)
    base = module.BaseSession
    base.run = _observed_run(base.run, observer)
    base.__init__ = _noted_init(base.__init__, observer)
    base.make_callable = _observed_make_callable(base.make_callable, observer)
    lifetime.on_begin(observer.forget)
