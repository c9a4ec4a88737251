"""Observing TensorFlow 1-style sessions.

Every `Session.run` of the driving thread is timed, and a few steps are traced: from one run of the
training fetches to the next, all runs.

A traced run is the user's own run with a trace level and partition graphs added to its options.
It is never repeated, whatever it raises: the update may have been applied already.

Source of the options: tensorflow/core/protobuf/config.proto, `RunOptions` and `RunMetadata`.
"""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING

from stepwhy.capture import lifetime
from stepwhy.capture.clock import now_ns
from stepwhy.capture.recorder import Recorder
from stepwhy.capture.rhythm import Rhythm, leading
from stepwhy.capture.signatures import Signatures
from stepwhy.capture.tf1_window import WindowWriter

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    Run = Callable[..., Any]

# Enough for a median, few enough to cost a training of minutes nothing.
_TRACED_STEPS = 5
# An evaluation of many batches between two training runs is no step to trace in full.
_TRACED_RUNS_PER_STEP = 8
# Over all steps: a program that keeps changing what it fetches is not traced for ever.
_TRACED_RUNS_IN_ALL = 40
# Another kind of run begins the steps only when it takes this many times as long in all.
_LEADS_BY = 2.0


class _Pending:
    """One run between its start and its end.

    Attributes:
        rhythm: Of its signature.
        signature: Number of the signature.
        options: The traced run's `RunOptions`; None when it is not traced.
        metadata: The traced run's `RunMetadata`; None when it is not traced.
        start_ns: When it started.
    """

    __slots__ = ("metadata", "options", "rhythm", "signature", "start_ns")

    def __init__(self, signature: int, rhythm: Rhythm) -> None:
        self.signature = signature
        self.rhythm = rhythm
        self.options: Any = None
        self.metadata: Any = None
        self.start_ns = 0


class SessionObserver:
    """Decides for each run whether to trace it, and logs it.

    Args:
        recorder: Where it is written.
        protos: The module that holds `RunOptions` and `RunMetadata`.
    """

    def __init__(self, recorder: Recorder, protos: Any) -> None:
        self._recorder = recorder
        self._protos = protos
        self._writer = WindowWriter(recorder)
        self.forget()

    def forget(self) -> None:
        """Begin as in a process that has run nothing yet (after a fork)."""
        self._signatures = Signatures()
        self._rhythms: list[Rhythm] = []
        self._traced = 0
        self._runs = 0
        self._leader: Rhythm | None = None
        self._traced_step: Rhythm | None = None
        self._traced_in_step = 0
        self._inside = False
        self._driver = threading.main_thread().ident
        self._driver_ran = False

    def begin(self, session: Any, fetches: Any, feeds: Any, options: Any) -> _Pending | None:
        """Take note of a run that is about to start.

        Returns:
            None when it is not observed: another thread's, or inside another run.
        """
        try:
            if not self._recorder.alive or self._inside or not self._drives():
                return None
            signature = self._signatures.number(fetches, feeds)
            while len(self._rhythms) <= signature:
                self._rhythms.append(Rhythm())
            pending = _Pending(signature, self._rhythms[signature])
            if self._should_trace(pending.rhythm, options):
                self._add_tracing(pending, session, options)
            self._inside = True
            pending.start_ns = now_ns()
        except Exception as error:
            self._recorder.step_aside(error)
            return None
        return pending

    def _drives(self) -> bool:
        """Whether this thread drives the loop: the main one; the first to run if that never does.

        Queue runners run their enqueue operations in sessions too, in threads of their own.
        """
        current = threading.get_ident()
        if current == self._driver:
            self._driver_ran = True
            return True
        if self._driver_ran or threading.current_thread().name.startswith("QueueRunner"):
            return False
        self._driver = current
        return True

    def _should_trace(self, rhythm: Rhythm, options: Any) -> bool:
        """Whether this run is one to trace: it opens a traced step, or belongs to one."""
        if self._traced_step is None:
            opens = self._opens_step(rhythm)
            self._traced_step = rhythm if opens else None
            self._traced_in_step = 0
        elif rhythm is self._traced_step:
            self._traced_step = None  # every other step is not traced, for comparison
        return (
            self._traced_step is not None
            and self._traced < _TRACED_RUNS_IN_ALL
            and self._traced_in_step < _TRACED_RUNS_PER_STEP
            # MonitoredSession always passes options; a level above zero is the user's own tracing.
            and (options is None or options.trace_level == 0)
        )

    def _opens_step(self, rhythm: Rhythm) -> bool:
        """Whether a traced step may begin with a run of this kind."""
        return (
            rhythm.traced < _TRACED_STEPS
            and self._traced < _TRACED_RUNS_IN_ALL
            and rhythm.settled()
            and rhythm is self._find_leader()
        )

    def _find_leader(self) -> Rhythm | None:
        """The kind of run that begins a step; of several alike, always the same one."""
        current = leading(self._rhythms)
        if current is not None and (
            self._leader is None or current.total_ns > _LEADS_BY * self._leader.total_ns
        ):
            self._leader = current
        return self._leader

    def _add_tracing(self, pending: _Pending, session: Any, options: Any) -> None:
        """Give the run options that trace it, the user's own included."""
        traced = self._protos.RunOptions()
        if options is not None:
            traced.CopyFrom(options)
        # A distributed master collects nothing below FULL_TRACE; in one process that level
        # conflicts with other profilers and SOFTWARE_TRACE shows the same nodes.
        remote = bool(getattr(session, "_target", b""))
        level = "FULL_TRACE" if remote else "SOFTWARE_TRACE"
        traced.trace_level = self._protos.RunOptions.TraceLevel.Value(level)
        traced.output_partition_graphs = True
        pending.options, pending.metadata = traced, self._protos.RunMetadata()

    def end(self, pending: _Pending, session: Any, failed: bool) -> None:
        """Take note of a run that has ended, normally or not."""
        end_ns = now_ns()
        self._inside = False
        try:
            self._count(pending, end_ns)
        except Exception as error:
            self._recorder.step_aside(error)
            return
        if pending.options is not None:
            self._finish_trace(pending, session, end_ns, failed)

    def _count(self, pending: _Pending, end_ns: int) -> None:
        """Log the run and weigh its signature."""
        traced = pending.options is not None
        self._recorder.step(
            f'{{"kind":"run","signature":{pending.signature},"start_ns":{pending.start_ns},'
            f'"end_ns":{end_ns},"profiled":{int(traced)}}}'
        )
        pending.rhythm.add(end_ns - pending.start_ns)
        self._runs += 1

    def _finish_trace(self, pending: _Pending, session: Any, end_ns: int, failed: bool) -> None:
        """Write the window of a traced run; one that failed counts as an attempt."""
        pending.rhythm.traced += 1
        self._traced += 1
        self._traced_in_step += 1
        if failed:
            return
        about = {
            "kind": "tf1-run",
            "step": self._runs - 1,
            "signature": pending.signature,
            "start_ns": pending.start_ns,
            "end_ns": end_ns,
        }
        try:
            self._writer.write(about, pending.metadata, session.graph)
        except Exception as error:
            self._traced = _TRACED_RUNS_IN_ALL
            self._recorder.window_failed(error)


def _hand_out(ours: Any, theirs: Any, options: Any) -> None:
    """Give the user's `RunMetadata` what an untraced run would have left in it."""
    if theirs is None:
        return
    theirs.CopyFrom(ours)
    theirs.ClearField("step_stats")
    theirs.ClearField("cost_graph")
    if options is None or not options.output_partition_graphs:
        theirs.ClearField("partition_graphs")


def _observed_run(original: Run, observer: SessionObserver) -> Run:
    """`BaseSession.run` with the observer around it."""

    @functools.wraps(original)
    def run(
        self: Any,
        fetches: Any,
        feed_dict: Any = None,
        options: Any = None,
        run_metadata: Any = None,
    ) -> Any:
        pending = observer.begin(self, fetches, feed_dict, options)
        if pending is None:
            return original(self, fetches, feed_dict, options, run_metadata)
        failed = True
        try:
            if pending.options is None:
                result = original(self, fetches, feed_dict, options, run_metadata)
            else:
                result = original(self, fetches, feed_dict, pending.options, pending.metadata)
                _hand_out(pending.metadata, run_metadata, options)
            failed = False
            return result
        finally:
            observer.end(pending, self, failed)

    return run


def _observed_make_callable(original: Run, observer: SessionObserver) -> Run:
    """`BaseSession.make_callable` whose callables are observed.

    A callable with feeds goes through `run`, which is observed already; one that takes options is
    the user's own business.
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
                failed = False
                return result
            finally:
                observer.end(pending, self, failed)

        return observed

    return make_callable


def install(module: ModuleType, run_dir: str) -> None:
    """Observe the sessions of a freshly imported `tensorflow.python.client.session`.

    Args:
        module: That module.
        run_dir: The run directory, absolute.
    """
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
    observer = SessionObserver(recorder, config_pb2)
    base = module.BaseSession
    base.run = _observed_run(base.run, observer)
    base.make_callable = _observed_make_callable(base.make_callable, observer)
    lifetime.on_begin(observer.forget)
