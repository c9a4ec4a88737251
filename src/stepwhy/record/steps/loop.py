"""The training loop as the observers of one framework share it: log, profiler window, meters.

TensorFlow 2 and JAX have no run call and no optimizer that every program goes through. Either the
steps have known ends (`KnownSteps`: Keras' `fit`, `stepwhy.step()`), or the calls of compiled
functions are logged and the importer finds the steps in them (`call_log`).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, TypeVar

from stepwhy.record.core.clock import EPOCH_OFFSET_NS, now_ns
from stepwhy.record.core.process import lifetime
from stepwhy.record.steps.meters import CompileTime, InputWait, measured_members
from stepwhy.record.steps.run_times import RunTimes
from stepwhy.record.steps.stall_watch import Standing
from stepwhy.record.steps.step_log import BATCH_STEPS, RECENT_STEPS, StepLog
from stepwhy.record.steps.watched_loop import WatchedLoop

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepwhy.record.core.recorder import Recorder
    from stepwhy.record.core.requests import Request
    from stepwhy.record.steps.step_window import StepWindow

T = TypeVar("T")

# No window opens earlier: the first steps include compilation.
EARLIEST_STEP = 4
# By then a window has been open, if one opens at all.
_SAMPLED_STEP = 16


class Loop(WatchedLoop):
    """The log and the window of one process.

    Args:
        recorder: Writes the lines.
        window: The profiler window.

    Attributes:
        compile_time: Meter of the current step.
        only_notes: Whether the current step may end with `KnownSteps.note`: calls are parts of it.
        lines: Number of lines logged.
        known_steps: How many of them are steps with known ends; calls outside of them mark none.
        marker: Returns what marks the ends of steps, in which calls are then parts; None for none.
        sample: Takes further samples, if due; receives the time.
        ahead: Whether the device still works on what earlier calls launched; None if unknown.
        launched: Receives what a call has returned, which the device may still compute.
        latest: Each returns when the last step or call ended that it knows of, 0 for none, and how
            many it has noted that are not counted in `lines`; any thread may ask.
    """

    window: StepWindow

    def __init__(self, recorder: Recorder, window: StepWindow) -> None:
        super().__init__(recorder, window, InputWait())
        self.marker: Callable[[], object] = no_marker
        self.sample: Callable[[int], object] = no_sample
        self.ahead: Callable[[], bool | None] = unknown
        self.launched: Callable[[object], object] = not_followed
        self.latest: list[Callable[[], tuple[int, int]]] = []
        self.forget()
        lifetime.on_begin(self.forget)

    def forget(self) -> None:
        """Start over, as in a process that has seen no step (after a fork)."""
        super().forget()
        self.compile_time = CompileTime()
        self.only_notes = self._was_asked = False
        self.lines = self.known_steps = 0
        self._recent_ns: deque[int] = deque(maxlen=RECENT_STEPS)
        self.window.forget()
        self._main = threading.main_thread().ident
        self._driver: int | None = None

    def drives(self) -> bool:
        """Whether the calling thread drives the loop, given that it calls compiled functions.

        The main thread does. Until it first calls one, the first other thread to do so does.
        Input pipelines and servers call compiled functions too, in their own threads.
        """
        current = threading.get_ident()
        if current == self._main or self._driver is None:
            self._driver = current
        return current == self._driver

    def computes(self) -> bool:
        """Whether a thread has been seen to drive the loop."""
        return self._driver is not None

    def driven_here(self) -> bool:
        """Whether the calling thread is the one that drives the loop, or may yet be."""
        return threading.get_ident() == (self._driver or self._main)

    def pace(self, time_ns: int) -> None:
        """A step begins: decide whether it is only timed.

        None is while a window is open, or waits for its requested step.

        Args:
            time_ns: Start of the step.
        """
        was_light = self.light
        window = self.window
        is_needed = window.running or (self._was_asked and window.is_requested)
        self.light = self._pace.next_step(time_ns) and not is_needed
        if was_light and not self.light:
            self.start_meters()

    @property
    def only_timed_until_ns(self) -> int:
        """Until when all steps are light; 0 if the current one is not, or the window needs it."""
        return self._pace.due_ns if self.light and not self.window.touched else 0

    def next_step(self, number: int, time_ns: int, *, ready: bool) -> None:
        """A step begins: pass it to the window, then take samples that are due.

        Args:
            number: Number of the step in this process.
            time_ns: Start of the step.
            ready: Whether the loop has warmed up.
        """
        window = self.window
        window.next_step(self.lines, start=ready and not self.light)
        # Sample in the step that closes a window, as its time is lost already; else in a warm one.
        if not window.running if window.touched else number >= _SAMPLED_STEP and not self.light:
            self.sample(time_ns)

    def compare(self, start_ns: int, end_ns: int) -> None:
        """A step has ended: open another window if the step time has changed for good.

        Args:
            start_ns: When it began.
            end_ns: When it ended.
        """
        self._recent_ns.append(end_ns - start_ns)
        if not self.window.touched:
            super().compare(start_ns, end_ns)

    def _request(self, request: Request) -> bool:
        """Open a window, as was requested from outside; whether it will."""
        is_accepted = super()._request(request)
        self._was_asked |= is_accepted
        return is_accepted

    def _step_count(self) -> int:
        """Number of steps so far, by their lines in the log."""
        return self.lines

    def measured(self, wait_ns: int) -> str:
        """Members of a log line: the input wait, and what was used since the last line.

        Args:
            wait_ns: The wait; `UNKNOWN` if it is.
        """
        return measured_members(wait_ns, self.thread_time.take(), self.process_load.take())

    def line(self, kind: str, start_ns: int, end_ns: int, more: str) -> str:
        """Format one line of the log; resets the compile time.

        Args:
            kind: Its kind as a JSON string, with members that follow it.
            start_ns: When it began.
            end_ns: When it ended.
            more: Further members, each preceded by a comma.
        """
        if not self.lines:
            # By now the framework has computed, so that asking it for the rank starts nothing.
            self._stalls.start_in_job()
        self.lines += 1
        return (
            f'{{"kind":{kind},"start_ns":{start_ns},"end_ns":{end_ns},'
            f'"profiled":{int(self.window.touched)}{more}{self.compile_time.take()}}}'
        )

    def _standing(self) -> Standing | None:
        """The current step, for another thread; None while there is none."""
        latest = [each() for each in self.latest]
        since_ns = max((end_ns for end_ns, _ in latest), default=0)
        if not since_ns:
            return None
        steps = self.lines + sum(noted for _, noted in latest)
        return Standing(since_ns, steps, tuple(self._recent_ns), self._driver or self._main or 0)

    def guard(self, work: Callable[[], T]) -> T | None:
        """Run part of the observer's work; if it fails, stop observing for good.

        Returns:
            The result of the work; None if it failed or the observation has ended.
        """
        if not self.recorder.alive:
            return None
        try:
            return work()
        except Exception as error:
            self.stop(error)
            return None

    def stop(self, error: BaseException) -> None:
        """Stop observing for good: the observer's work has failed."""
        self.window.abandon()
        self.recorder.stop(error)


def no_marker() -> None:
    """The `marker` of a loop without marked steps."""


def no_sample(_: int) -> None:
    """The `sample` of a loop without further samples."""


def unknown() -> None:
    """The `ahead` of a loop whose device cannot be asked."""


def not_followed(_: object) -> None:
    """The `launched` of a loop whose device cannot be asked."""


def ahead_member(ahead: bool | None) -> str:
    """Member of a log line for whether the host runs ahead of the device; None if unknown."""
    return "" if ahead is None else f',"ahead":{int(ahead)}'


class KnownSteps:
    """Log steps with known ends.

    Args:
        loop: The loop of this process.
    """

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._log = StepLog(loop.recorder, loop.compare)
        self._ended_ns = 0
        loop.latest.append(self._latest)
        self.forget()
        lifetime.on_begin(self.forget)
        # Run before the handlers of the log, since handlers run in reverse order.
        lifetime.on_end(self._write_notes)
        lifetime.on_flush(self._write_notes)

    def forget(self) -> None:
        """Start over, as in a process that has seen no step (after a fork)."""
        self._log.forget()
        self._run_times = RunTimes()
        self._steps = 0
        self._note_until_ns = self._ended_ns = 0
        self._loop.only_notes = False

    def _latest(self) -> tuple[int, int]:
        """When the last step ended, also that of a sequence that is over, and how many are noted.

        Any thread may ask.
        """
        return self._log.last_end_ns or self._ended_ns, len(self._log.notes)

    def begin(self) -> None:
        """Begin a sequence of steps; the first one starts here."""
        if self._log.start_ns:
            self.end()  # the sequence before was aborted: its last step has no end
            self._loop.window.finish()
        # Waits and compilations between two sequences belong to no step.
        self._loop.compile_time.take()
        self._loop.start_meters()
        self._log.begin(now_ns())

    def begin_work(self) -> None:
        """Mark the start of the work of a step; the step itself may have started earlier."""
        self._loop.window.begin_step()

    def note(self) -> bool:
        """End a light step of one batch here, if nothing else is due; otherwise use `end_step`.

        Returns:
            Whether the step has ended.
        """
        end_ns = time.perf_counter_ns() + EPOCH_OFFSET_NS
        if end_ns >= self._note_until_ns or self._loop.compile_time.intervals:
            return False
        notes = self._log.notes
        notes.append(end_ns)
        if len(notes) >= BATCH_STEPS:
            self._note_until_ns = 0
        return True

    def _write_notes(self) -> None:
        """Write the steps that were only noted."""
        loop, count = self._loop, len(self._log.notes)
        self._log.write()
        self._note_until_ns, loop.only_notes = 0, False
        loop.lines += count
        loop.known_steps += count
        self._steps += count

    def end_step(self, wait_ns: int, batches: int = 1) -> None:
        """End a step here, and begin the next one.

        Args:
            wait_ns: Its wait for input; `UNKNOWN` if it is.
            batches: Number of batches that it trained on.
        """
        loop, log = self._loop, self._log
        if not log.start_ns:
            return
        self._write_notes()
        start_ns, end_ns = log.start_ns, now_ns()
        more = ',"light":1' if loop.light else loop.measured(wait_ns)
        if batches > 1:
            more += f',"batches":{batches}'
        loop.known_steps += 1
        loop.recorder.step(loop.line('"step"', start_ns, end_ns, more))
        if not loop.window.touched:
            self._run_times.add(end_ns - start_ns)
        loop.compare(start_ns, end_ns)
        self._steps += 1
        log.start_ns = end_ns
        loop.pace(end_ns)
        ready = self._steps >= EARLIEST_STEP and self._run_times.settled()
        loop.next_step(self._steps, end_ns, ready=ready)
        if batches == 1 and loop.only_timed_until_ns > end_ns:
            self._note_until_ns = min(loop.only_timed_until_ns, log.due_ns)
            loop.only_notes = True

    def end(self) -> None:
        """End the sequence of steps: what follows belongs to none."""
        self._write_notes()
        self._ended_ns, self._log.start_ns = self._log.start_ns or self._ended_ns, 0
        self._loop.light = False
        self._loop.window.check_age()
