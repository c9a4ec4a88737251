"""What the observers of one framework share: the log, the profiler's window, compile time.

TensorFlow 2 and JAX have no run call and no optimizer that every program goes through. Either
somebody tells where steps end (`StepLog`: Keras' `fit`), or the calls of compiled functions are
logged and the reader finds the steps in them (`call_log`).
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, TypeVar

from stepwhy.capture.clock import now_ns
from stepwhy.capture.meters import CompileTime, InputWait, ThreadTime
from stepwhy.capture.pacing import Change, is_light
from stepwhy.capture.process import lifetime
from stepwhy.capture.run_times import Rhythm

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepwhy.capture.recorder import Recorder
    from stepwhy.capture.xplane_window import StepWindow

T = TypeVar("T")

# Steps to leave alone, as for the other frameworks: the first ones pay for compilation.
EARLIEST_STEP = 4
# By then a window has been open, if there is to be one.
_SAMPLED_STEP = 16


class Loop:
    """The log and the window of one process.

    Args:
        recorder: Where lines go.
        window: The profiler's window.

    Attributes:
        change: Notices when the step time has changed for good.
        compile_time: Of the step under way.
        input_wait: Of the step under way.
        thread_time: Of the step under way.
        light: Whether the step under way is only timed.
        lines: How many lines were logged.
        noted: How many of them are steps whose ends were told: calls outside of them make none.
        told: Whether somebody tells where steps end, so that calls are parts of steps.
        sample: Looks at something now and then; given the time.
    """

    def __init__(self, recorder: Recorder, window: StepWindow) -> None:
        self.recorder = recorder
        self.window = window
        self.told: Callable[[], object] = nobody
        self.sample: Callable[[int], object] = nothing
        self.forget()
        lifetime.on_begin(self.forget)

    def forget(self) -> None:
        """Begin as in a process that has seen no step (after a fork)."""
        self.change = Change()
        self.compile_time = CompileTime()
        self.input_wait = InputWait()
        self.thread_time = ThreadTime()
        self.light = False
        self.lines = self.noted = 0
        self.window.forget()
        self._main = threading.main_thread().ident
        self._driver: int | None = None

    def drives(self) -> bool:
        """Whether the calling thread drives the loop, given that it calls compiled functions.

        The main one does; the first other one to call does as long as the main one never has.
        Input pipelines and servers call compiled functions too, in threads of their own.
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

    def pace(self, number: int) -> None:
        """A step begins: is it only timed?

        Args:
            number: Of the step, in its process.
        """
        was_light, self.light = self.light, is_light(number) and not self.window.running
        if was_light and not self.light:
            self.input_wait.take()
            self.thread_time.take()

    def next_step(self, number: int, time_ns: int, *, ready: bool) -> None:
        """A step begins: the profiler takes its turn, then what is sampled now and then.

        Args:
            number: Of the step, in its process.
            time_ns: When.
            ready: Whether the loop has warmed up.
        """
        window = self.window
        window.next_step(self.lines, start=ready and not self.light)
        # The step in which a window closes is lost already; without a window, one that is warm.
        if not window.running if window.touched else number >= _SAMPLED_STEP and not self.light:
            self.sample(time_ns)

    def weigh(self, start_ns: int, end_ns: int) -> None:
        """A step has ended: the step time may have changed for good.

        Args:
            start_ns: When it began.
            end_ns: When it ended.
        """
        if not self.window.touched and self.change.add(end_ns - start_ns):
            self.recorder.event("change", name="step", start_ns=start_ns, end_ns=end_ns)
            self.window.reopen()

    def seen(self, wait_ns: int | None) -> str:
        """Members of a line: the input wait, and the driving thread's CPU time since the last.

        Args:
            wait_ns: The wait; None where it cannot be seen.
        """
        cpu_ns = self.thread_time.take()
        return f'{waited(wait_ns)},"cpu_ns":{"null" if cpu_ns is None else cpu_ns}'

    def line(self, kind: str, start_ns: int, end_ns: int, more: str) -> str:
        """One line of the log, which takes the compile time.

        Args:
            kind: Its kind as a JSON string, with members that follow it.
            start_ns: When it began.
            end_ns: When it ended.
            more: Further members, each after a comma.
        """
        self.lines += 1
        return (
            f'{{"kind":{kind},"start_ns":{start_ns},"end_ns":{end_ns},'
            f'"profiled":{int(self.window.touched)}{more}{self.compile_time.take()}}}'
        )

    def guard(self, work: Callable[[], T]) -> T | None:
        """Do a piece of the observer's work; when it fails, step aside for good.

        Returns:
            What the work returns; None when it failed, or did not begin.
        """
        if not self.recorder.alive:
            return None
        try:
            return work()
        except Exception as error:
            self.step_aside(error)
            return None

    def step_aside(self, error: BaseException) -> None:
        """The observer's work has failed: observe no more."""
        self.window.abandon()
        self.recorder.step_aside(error)


def nobody() -> None:
    """The `told` of a loop that nobody tells where its steps end."""


def nothing(_: int) -> None:
    """The `sample` of a loop in which nothing is looked at."""


def waited(wait_ns: int | None) -> str:
    """The member of a line about the input wait; None where it cannot be seen."""
    return ',"input_wait_ns":null' if wait_ns is None else f',"input_wait_ns":{wait_ns}'


class StepLog:
    """Logs steps whose ends are known.

    Args:
        loop: What is shared.
    """

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self.forget()
        lifetime.on_begin(self.forget)

    def forget(self) -> None:
        """Begin as in a process that has seen no step (after a fork)."""
        self._rhythm = Rhythm()
        self._start_ns = 0
        self._steps = 0

    def begin(self) -> None:
        """A run of steps begins: the first one starts here."""
        if self._start_ns:
            self.end()  # the run before broke off: its last step has no end
            self._loop.window.finish()
        # What was waited for and compiled between two runs belongs to no step.
        self._loop.input_wait.take()
        self._loop.compile_time.take()
        self._loop.thread_time.take()
        self._start_ns = now_ns()

    def begin_work(self) -> None:
        """The work of a step begins; its start may lie before that."""
        self._loop.window.begin_step()

    def end_step(self, wait_ns: int | None, batches: int = 1) -> None:
        """A step ends here and the next one begins.

        Args:
            wait_ns: How long it waited for input; None where that cannot be seen.
            batches: How many batches it trained on.
        """
        if not self._start_ns:
            return
        loop, start_ns, end_ns = self._loop, self._start_ns, now_ns()
        more = ',"light":1' if loop.light else loop.seen(wait_ns)
        if batches > 1:
            more += f',"batches":{batches}'
        loop.noted += 1
        loop.recorder.step(loop.line('"step"', start_ns, end_ns, more))
        if not loop.window.touched:
            self._rhythm.add(end_ns - start_ns)
        loop.weigh(start_ns, end_ns)
        self._steps += 1
        self._start_ns = end_ns
        loop.pace(self._steps)
        ready = self._steps >= EARLIEST_STEP and self._rhythm.settled()
        loop.next_step(self._steps, end_ns, ready=ready)

    def end(self) -> None:
        """The run of steps is over: what follows belongs to none."""
        self._start_ns = 0
        self._loop.light = False
        self._loop.window.check_age()
