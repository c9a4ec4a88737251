"""A profiler window, and a few steps after it in which the running line of Python is noted.

The profilers of TensorFlow and JAX record the lines of what was traced or compiled, not those that
run in Python between. So the line clock runs in up to three steps after the traced window, without
a profiler, and `line_file` keeps how long each step was at which line. There, no row has an
operation.

While the clock runs, calls and changes of the line take longer, which is subtracted from the time
at each line.
"""

from __future__ import annotations

from statistics import median
from time import perf_counter_ns
from typing import TYPE_CHECKING, NamedTuple

from stepwhy.record.core.process import lifetime
from stepwhy.record.windows.line_clock import NOWHERE, LineClock, is_in_use
from stepwhy.record.windows.line_file import LINES_FILE, packed
from stepwhy.record.windows.line_slots import Marks, slots

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepwhy.record.core.recorder import Recorder
    from stepwhy.record.windows.line_file import Row
    from stepwhy.record.windows.line_slots import Slot
    from stepwhy.record.windows.xplane_window import XPlaneWindow

# Steps without a profiler before the clock starts, which tell how long a step takes.
_USUAL_STEPS = 4
# Steps differ, as with a generator that makes several batches at once; one has to do where they
# take longer than a part of the time that all may take.
_STEPS = 3
_MOST_NS = 500_000_000
_LONGEST_STEP_NS = 10_000_000_000
_MOST_ATTEMPTS = 3
# A step that waits for the clock is observed fully, which costs 20 µs.
_MOST_WAITING = 64
# A step that takes this many times as long as the shortest one holds something else, such as an
# evaluation.
_UNUSUAL = 2


class _Step(NamedTuple):
    """A step in which the clock ran.

    Args:
        number: Its line in the log, from 0.
        start, end: By `perf_counter_ns`.
    """

    number: int
    start: int
    end: int


class ClockedWindow:
    """The window of a loop, with the clock after it.

    Args:
        recorder: Writes what the clock has noted.
        window: The window, which holds the profiler.
    """

    def __init__(self, recorder: Recorder, window: XPlaneWindow) -> None:
        self._recorder = recorder
        self._window = window
        self._clock: LineClock | None = None
        self.forget()
        lifetime.on_end(self.finish)

    def forget(self) -> None:
        """Start over, as in a process without a window (after a fork)."""
        self._stop()
        self._window.forget()
        self._is_clocked = self._followed = self._pending = False
        self._attempts = 0
        self._last = 0
        self._wait()

    @property
    def touched(self) -> bool:
        """Whether the profiler or the clock started, ran or stopped in the current step."""
        return self._window.touched or self._is_clocked

    @property
    def running(self) -> bool:
        """Whether the profiler or the clock runs, or the clock is about to."""
        return self._window.running or self._pending or self._clock is not None

    def next_step(self, step: int, *, start: bool) -> None:
        """A step begins: open, continue or close the window or the clock; never raises.

        Args:
            step: Number of the step that begins: its line in the log, from 0.
            start: Whether the loop is ready for a window.
        """
        self._is_clocked = self._clock is not None
        self._window.next_step(step, start=start and self._clock is None)
        try:
            self._advance(step, ready=start)
        except Exception as error:
            self._fail(error)

    def _advance(self, step: int, *, ready: bool) -> None:
        """Pass the boundary of a step."""
        last, self._last = self._last, perf_counter_ns()
        if self._clock is not None:
            self._pass(self._clock, step)
        elif self._window.running or self._window.touched:
            self._wait()
        elif self._window.kept and not self._followed:
            self._followed = self._pending = True
        elif self._pending:
            self._usual.append(self._last - last)
            if len(self._usual) > _MOST_WAITING:
                self._pending = False
            elif ready and len(self._usual) >= _USUAL_STEPS:
                self._start(step)

    def _wait(self) -> None:
        """The clock waits for as many steps as at first."""
        self._usual: list[int] = []
        self._steps: list[_Step] = []

    def _start(self, step: int) -> None:
        """Start the clock, unless something else traces the thread, or steps take too long."""
        usual = int(median(self._usual))
        self._pending = False
        if is_in_use() or usual > _LONGEST_STEP_NS:
            return
        self._attempts += 1
        self._wanted = _STEPS if (_STEPS + 1) * usual <= _MOST_NS else 1
        clock = LineClock()
        if clock.start(self._wanted * usual):
            self._clock, self._is_clocked = clock, True
            self._number, self._last = step, clock.times[0]

    def _pass(self, clock: LineClock, step: int) -> None:
        """A clocked step ends; after the last one, stop."""
        if clock.is_whole():
            start = self._steps[-1].end if self._steps else clock.times[0]
            self._steps.append(_Step(self._number, start, self._last))
            self._number = step
            if len(self._steps) >= self._wanted:
                self._close(clock)
            return
        self._close(clock)
        self._pending &= not clock.is_hopeless

    def _close(self, clock: LineClock) -> None:
        """Stop, and write what was noted; if that is nothing, try again later."""
        self._stop()
        marks = Marks(clock.times, clock.places, clock.calls)
        each_ns = marks.each_ns()
        longest = _UNUSUAL * min((step.end - step.start for step in self._steps), default=0)
        rows = [
            (step.number, [*_rows(slots(marks, step.start, step.end), each_ns)])
            for step in self._steps
            if step.end - step.start <= longest
        ]
        self._wait()
        if rows:
            self._recorder.keep(LINES_FILE, packed(rows, clock))
        else:
            self._pending = self._attempts < _MOST_ATTEMPTS

    def _stop(self) -> None:
        """Stop the clock."""
        clock, self._clock = self._clock, None
        if clock is not None:
            clock.stop()

    def finish(self) -> None:
        """No step comes for a while: keep the window, and the complete steps; never raises."""
        self._window.finish()
        clock = self._clock
        if clock is not None:
            try:
                self._close(clock)
            except Exception as error:
                self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """Stop the clock for good; the loop is still observed."""
        self._pending = False
        self._stop()
        self._recorder.window_failed(error)

    def abandon(self) -> None:
        """Stop the profiler and the clock, and keep nothing; never raises."""
        self._window.abandon()
        self._pending = False
        self._stop()

    def begin_step(self) -> None:
        """The work of the step begins."""
        self._window.begin_step()

    def end_last_step(self, time_ns: int) -> None:
        """No further step comes, and the last one ended at this time."""
        self._window.end_last_step(time_ns)

    def check_age(self) -> None:
        """Close a window that has been open for long."""
        self._window.check_age()

    def reopen(self) -> None:
        """Allow one more window: the step time has changed for good."""
        self._window.reopen()

    @property
    def is_requested(self) -> bool:
        """Whether a window was requested from outside, and waits for its step."""
        return self._window.is_requested

    def request(self, step: int) -> bool:
        """Open a window at a step, as was requested from outside; whether it will."""
        return self._window.request(step)


def _rows(times: list[Slot], each_ns: int) -> Iterator[Row]:
    """The rows of a step, without the time that the clock has added.

    Args:
        times: What was noted of the step.
        each_ns: What the clock adds to a call, and to a change of the line.
    """
    for slot in times:
        yield None, slot.place, max(slot.time_ns - slot.calls * each_ns, 1), 0, NOWHERE
