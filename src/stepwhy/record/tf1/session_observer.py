"""Log the runs of TensorFlow 1-style sessions, and trace a few steps.

Every `Session.run` of the driving thread is timed. A step lasts from one run of the training
fetches to the next; when it is traced, all its runs are. Between steps, queues are sampled and the
graph is checked for growth.

Between two runs the training evicts this code from the CPU caches, where each call of another
function takes a microsecond. While steps of one run are only timed, the start and end of each are
therefore only noted, and many are worked up at once.

A traced run is never repeated, whatever it raises: the update may have been applied already. Where
the training traces a run itself, its own record is kept instead.
"""

from __future__ import annotations

import contextlib
import threading
from threading import get_ident
from time import perf_counter_ns, thread_time_ns
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from stepwhy.record.core.clock import EPOCH_OFFSET_NS, now_ns
from stepwhy.record.core.observation_guard import ObservationGuard
from stepwhy.record.core.process import lifetime
from stepwhy.record.core.process.folder import encode
from stepwhy.record.core.process.threads import tensorflow_threads
from stepwhy.record.core.user_code import user_line
from stepwhy.record.steps.meters import UNKNOWN, ProcessLoad
from stepwhy.record.steps.stall_watch import StallWatch, Standing
from stepwhy.record.steps.watched_loop import log_change
from stepwhy.record.tf1.feeds_and_fetches import describe, fingerprints
from stepwhy.record.tf1.graph_growth import GraphGrowth
from stepwhy.record.tf1.queues import QueueLevels
from stepwhy.record.tf1.run_log import PendingRun, RunLog
from stepwhy.record.tf1.signatures import Signatures
from stepwhy.record.tf1.trace_plan import TracePlan
from stepwhy.record.tf1.window import WindowWriter, own_profiler, traced_options
from stepwhy.record.watchers.parameters import ParameterTypes
from stepwhy.record.windows.profiler_conflicts import ProfilerConflict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from stepwhy.record.core.recorder import Recorder
    from stepwhy.record.tf1.queues import MakeRead

    Run = Callable[..., Any]

# Runs that the training itself traces are logged up to this number.
_MOST_OWN_TRACES = 200
# Own traces that are kept before a loop is seen: a script without one may have no others.
_FIRST_OWN_TRACES = 3
_LARGEST_OWN_TRACE = 16 << 20  # bytes
# The step at which the queues of a loop are looked up if none of its steps is traced.
_QUEUES_BY_STEP = 16
# Most light runs that are noted before they are worked up.
_MOST_NOTES = 512
_LIGHT = ',"light":1'
FAILED = ',"light":1,"failed":1'


class SessionObserver:
    """Decide for each run whether to trace it, and log it.

    Args:
        recorder: Writes the log and the windows.
        protos: The module that holds `RunOptions` and `RunMetadata`.
        make_read: Makes a function that reads the sizes of queues.

    Attributes:
        notes: Whether a run may only be noted, see `begin_note`.
        made: Line and text of the call that made each session, see `user_call`.
    """

    def __init__(self, recorder: Recorder, protos: Any, make_read: MakeRead) -> None:
        self.recorder = recorder
        self.made: WeakKeyDictionary[Any, tuple[str, str]] = WeakKeyDictionary()
        self._protos = protos
        self._writer = WindowWriter(recorder)
        self._growth = GraphGrowth(recorder)
        self._growth_guard = ObservationGuard(recorder, "Growth of the graph")
        self._levels_guard = ObservationGuard(recorder, "Fill levels of queues")
        self._levels = QueueLevels(recorder, make_read)
        self._log = RunLog(recorder)
        self._conflict = ProfilerConflict(recorder)
        self._load = ProcessLoad()
        self._types = ParameterTypes(recorder)
        self._stalls = StallWatch(recorder, self._standing)
        # Run before the log's handlers, since handlers run in reverse order.
        lifetime.on_end(self._work_up_notes)
        lifetime.on_flush(self._work_up_notes)
        self.forget()

    def forget(self) -> None:
        """Start over, as in a process that has run nothing yet (after a fork)."""
        self._signatures = Signatures()
        self._plan = TracePlan()
        self._growth.forget()
        self._types.forget()
        self._levels.forget()
        self._stalls.forget()
        self._log.forget()
        self._conflict.forget()
        self._runs = self._own_traces = self._last_end_ns = 0
        self._inside = False
        self._cpu_ns = 0
        self._load.start_over()
        self._driver = threading.main_thread().ident
        self._driver_ran = False
        self.notes = False
        self._noted: list[tuple[int, int, str]] = []
        self._noted_kind = 0
        self._note_until_ns = 0

    def begin_note(self, fetches: Any, feeds: Any) -> bool:
        """Begin a run that is only noted; `end_note` ends it.

        Args:
            fetches: What it fetches.
            feeds: What it is fed.

        Returns:
            False if it is not the run of which the light steps consist; `begin` decides about it.
        """
        try:
            if self._inside or get_ident() != self._driver:
                return False
            if self._signatures.of(fetches, feeds)[0] != self._noted_kind:
                return False
        except Exception:
            return False  # `begin` meets it, too, and reports it
        self._inside = True
        return True

    def end_note(self, start_ns: int, about: str = _LIGHT) -> None:
        """Note a run that has ended.

        Args:
            start_ns: Its start on the clock of `time.perf_counter_ns`.
            about: Further members of its log line.
        """
        end_ns = perf_counter_ns()
        self._inside = False
        self._noted.append((start_ns, end_ns, about))
        if end_ns >= self._note_until_ns or len(self._noted) >= _MOST_NOTES:
            self.notes = False

    def _work_up_notes(self) -> None:
        """Log the runs that were only noted, as if each had been passed to `begin` and `end`."""
        noted, self._noted, self.notes = self._noted, [], False
        plan, kind = self._plan, self._noted_kind
        for start_ns, end_ns, about in noted:
            times = start_ns + EPOCH_OFFSET_NS, end_ns + EPOCH_OFFSET_NS
            plan.timed(times[0])
            if plan.change is not None:
                log_change(self.recorder, *plan.change)
            plan.kinds[kind].add(end_ns - start_ns)
            self._log.add((kind, *times, 0, about, UNKNOWN, UNKNOWN, (UNKNOWN, UNKNOWN)))
            self._last_end_ns = times[1]
        self._runs += len(noted)

    def _may_note(self, pending: PendingRun, end_ns: int) -> None:
        """Decide whether runs that follow this one are only noted.

        Args:
            pending: The run that has ended, and begins a light step.
            end_ns: When it ended.
        """
        until_ns = min(self._plan.only_timed_until_ns, self._log.due_ns)
        if until_ns > end_ns and not pending.is_traced:
            self.notes, self._noted_kind = True, pending.signature
            self._note_until_ns = until_ns - EPOCH_OFFSET_NS

    def begin(
        self, session: Any, fetches: Any, feeds: Any, options: Any, metadata: Any = None
    ) -> PendingRun | None:
        """Prepare a run that is about to start.

        Args:
            session: The session that runs it.
            fetches: What it fetches.
            feeds: What it is fed.
            options: The user's `RunOptions`, or None.
            metadata: The user's `RunMetadata`, or None.

        Returns:
            None if it is not observed: in another thread, or inside another run.
        """
        try:
            if not self.recorder.alive or self._inside:
                return None
            if not (get_ident() == self._driver and self._driver_ran) and not self._drives():
                return None
            if self._noted:
                self._work_up_notes()
            kind, exact = self._signatures.of(fetches, feeds)
            plan = self._plan
            pending = PendingRun(kind, plan.run_times(kind))
            pending.run_times.for_effect = self._signatures.has_effect(kind)
            pending.is_traced = options is not None and options.trace_level != 0
            if plan.leads(pending.run_times):
                plan.open(pending.run_times, now_ns())
                if plan.change is not None:
                    log_change(self.recorder, *plan.change)
            else:
                plan.follow()
            if plan.light:
                self._prepare_light(pending)
            else:
                self._prepare(pending, session, exact, options, metadata)
            if plan.is_compared:
                pending.members += _fed_member(feeds)
            self._inside = True
            pending.start_ns = now_ns()
        except Exception as error:
            self.recorder.stop(error)
            return None
        return pending

    def _prepare_light(self, pending: PendingRun) -> None:
        """Prepare a run of a step that is only timed."""
        pending.members = _LIGHT
        if self._cpu_ns:
            # The CPU time of the previous, observed step ends here.
            pending.gap_cpu_ns = thread_time_ns() - self._cpu_ns
            pending.load = self._load.take()
            self._load.forget()
            self._cpu_ns = 0
            self._growth.skip()

    def _prepare(
        self, pending: PendingRun, session: Any, exact: int, options: Any, metadata: Any
    ) -> None:
        """Prepare a run of an observed step."""
        plan = self._plan
        if not self._runs:
            self._describe(session)
        self._growth_guard.guard(lambda: self._note_fresh(pending, session, exact))
        pending.members += ',"update":1' * pending.run_times.for_effect
        if plan.opens:
            self._between_steps(pending, session)
            pending.load = self._load.take()
        if plan.tracing and plan.traces_run():
            self._trace(pending, session, options, metadata)
        elif pending.is_traced and self._own_traces < _FIRST_OWN_TRACES:
            pending.own = metadata
            pending.members += ',"early":1'
        pending.cpu_ns = thread_time_ns()
        if self._cpu_ns:
            pending.gap_cpu_ns = pending.cpu_ns - self._cpu_ns

    def _note_fresh(self, pending: PendingRun, session: Any, exact: int) -> None:
        """Note whether a run needs preparation."""
        if self._growth.is_fresh(session, exact):
            pending.members = ',"fresh":1'

    def _trace(self, pending: PendingRun, session: Any, options: Any, metadata: Any) -> None:
        """Trace a run, or keep the training's own trace, unless another profiler is on."""
        plan, profiler = self._plan, own_profiler(session, options)
        if not profiler or (pending.is_traced and metadata is not None):
            pending.is_step = True
            if profiler:
                pending.own = metadata
            else:
                pending.options = traced_options(self._protos, session, options)
                pending.metadata = self._protos.RunMetadata()
            if plan.early:
                pending.members += ',"early":1'
        elif plan.opens:
            self._conflict.report(profiler, pending.run_times.count)
            plan.postpone()

    def _between_steps(self, pending: PendingRun, session: Any) -> None:
        """Sample the queues and check the graph before a step begins."""
        plan, levels, time_ns = self._plan, self._levels, now_ns()
        self._growth_guard.guard(lambda: self._growth.begin_step(session, time_ns))
        self._types.log_once(lambda: _parameters(session.graph))
        if plan.after_trace or pending.run_times.count == _QUEUES_BY_STEP:
            self._levels_guard.guard(lambda: levels.prepare(session))
        if levels.readers:
            levels.sample(session, time_ns)

    def _describe(self, session: Any) -> None:
        """Record how the session was made, and how many threads an operation of it may use."""
        self.recorder.made("session", self.made.get(session, ("", "")))
        config = getattr(session, "_config", None)
        with contextlib.suppress(Exception):
            threads = int(config.intra_op_parallelism_threads) if config is not None else 0
            self.recorder.describe(**tensorflow_threads(threads))

    def _drives(self) -> bool:
        """Whether this thread drives the loop: the main thread, or the first one to run until then.

        Queue runners run their enqueue operations in sessions too, in their own threads.
        """
        current = get_ident()
        if current == self._driver:
            self._driver_ran = True
            return True
        if self._driver_ran or threading.current_thread().name.startswith("QueueRunner"):
            return False
        self._driver, self._cpu_ns = current, 0
        return True

    def end(self, pending: PendingRun, session: Any, failed: bool) -> None:
        """Log a run that has ended, normally or not."""
        self._inside = False
        end_ns = now_ns()
        try:
            self._log_run(pending, end_ns, failed)
            if self._plan.light:
                self._may_note(pending, end_ns)
        except Exception as error:
            self.recorder.stop(error)
            return
        if pending.options is not None or pending.own is not None:
            self._finish_trace(pending, session, end_ns, failed)

    def _log_run(self, pending: PendingRun, end_ns: int, failed: bool) -> None:
        """Log a run, and add it to the run times of its kind."""
        start_ns, cpu_ns = pending.start_ns, UNKNOWN
        if pending.cpu_ns:
            self._cpu_ns = thread_time_ns()
            cpu_ns = self._cpu_ns - pending.cpu_ns
        profiled = int(pending.is_step)
        about = pending.members + ',"failed":1' * failed
        times = (start_ns, end_ns, profiled, about, pending.gap_cpu_ns, cpu_ns, pending.load)
        self._log.add((pending.signature, *times))
        pending.run_times.add(end_ns - start_ns)
        self._last_end_ns = end_ns
        if not self._runs:
            self._stalls.start_in_job()
        self._runs += 1
        if pending.is_traced and self._own_traces < _MOST_OWN_TRACES:
            self._own_traces += 1
            self.recorder.event(
                "profiler",
                name="RunOptions.trace_level",
                start_ns=start_ns,
                end_ns=end_ns,
                source=user_line(),
            )

    def _standing(self) -> Standing | None:
        """The current run, or the time since the last one, for another thread; None before any."""
        noted = self._noted[:]
        noted_ns = noted[-1][1] + EPOCH_OFFSET_NS if noted else 0
        since_ns = max(noted_ns, self._last_end_ns)
        if not since_ns:
            return None
        runs = self._runs + len(noted)
        return Standing(since_ns, runs, tuple(self._log.recent_ns), self._driver or 0)

    def _finish_trace(self, pending: PendingRun, session: Any, end_ns: int, failed: bool) -> None:
        """Write the window of a traced run; a failed one counts against the budget, too."""
        self._log.write()  # on a nearly full disk, the log goes first
        size, metadata = 0, pending.metadata if pending.own is None else pending.own
        about = {
            "kind": "tf1-run",
            "step": self._runs - 1,
            "signature": pending.signature,
            "start_ns": pending.start_ns,
            "end_ns": end_ns,
        }
        # A window without a description of its feeds is still useful.
        with contextlib.suppress(Exception):
            about["source"] = user_line()
            about |= describe(*pending.values)
        try:
            if not failed and (pending.own is None or metadata.ByteSize() <= _LARGEST_OWN_TRACE):
                size = self._writer.write(about, metadata, session)
        except Exception as error:
            self._plan.stop()
            self.recorder.window_failed(error)
        if pending.is_step:
            self._plan.traced(end_ns - pending.start_ns, size)


def _fed_member(feeds: Any) -> str:
    """Member of a log line with what a run is fed with; empty if it cannot be compared."""
    with contextlib.suppress(Exception):
        return f',"fed":{encode(fingerprints(feeds))}'
    return ""


def _parameters(graph: Any) -> Iterator[tuple[str, int]]:
    """Type and number of elements of each trainable variable of a graph."""
    for variable in graph.get_collection("trainable_variables"):
        yield str(variable.dtype.base_dtype.name), int(variable.shape.num_elements() or 0)
