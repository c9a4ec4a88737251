"""Note the running lines in a few steps of their own, for the breakdown by line.

The profiler of PyTorch does not record lines: with stacks it shows where functions are defined, at
a cost that changes the steps. So the line clock runs in up to three steps after the traced window,
together with a profiler that only records the operations, which join these steps with the traced
ones. `line_file` describes the file that keeps the result.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from stepwhy.record.core.clock import EPOCH_OFFSET_NS, now_ns
from stepwhy.record.core.forks import Forks
from stepwhy.record.core.process import lifetime
from stepwhy.record.torch import device
from stepwhy.record.torch.function_modes import hidden_from_modes
from stepwhy.record.torch.kineto import Kineto, graph_task
from stepwhy.record.torch.line_rows import Event, Marks, Operations, StepRows, is_unit
from stepwhy.record.torch.module_calls import ModuleCalls
from stepwhy.record.torch.own_profilers import own_profilers
from stepwhy.record.windows.line_clock import LineClock, is_in_use
from stepwhy.record.windows.line_file import LINES_FILE, packed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from stepwhy.record.core.recorder import Recorder

# Usual steps between the traced window and these, with which both are compared.
_USUAL_STEPS = 4
# Two recorded steps may differ, as with a loader that reads ahead; one has to do where steps take
# longer than a part of the time that all may take.
_STEPS = 2
_MOST_NS = 500_000_000
_LONGEST_STEP_NS = 10_000_000_000
_MOST_ATTEMPTS = 3
# A step that waits for a chance to start is observed fully, which costs 20 µs.
_MOST_WAITING = 64
# Handling one takes 5 µs. Of more, the last step alone may do, without what operations call
# themselves; only to look at one takes 0.3 µs.
_MOST_EVENTS = 50_000
_MOST_RECORDED = 500_000
_HERE = "stepwhy: lines"
_READINGS = 4
# Scope of such ranges. Source: PyTorch, aten/src/ATen/record_function.h, `RecordScope`.
_USER_SCOPE = 7


class _Silent:
    """Stands for the recorder where the traced window has reported the same."""

    def message(self, level: str, slug: str, text: str) -> None:
        """Drop the message."""


class LineWindow:
    """A sequence of steps in which the running line is noted.

    Args:
        recorder: Writes the result.

    Attributes:
        touched: Whether the clock and the profiler started, ran or stopped in the current step, so
            that its time is not the training's own.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        silent: Any = _Silent()
        self._forks = Forks(silent, self._close_before_fork)
        self._kineto = Kineto(self._forks)
        self._own_profilers = own_profilers()
        self._own_profilers.watch(self.retry, recorder)
        self._home = threading.get_ident()
        self._clock: LineClock | None = None
        self._modules: ModuleCalls | None = None
        self.forget()
        lifetime.on_end(self.finish)

    def forget(self) -> None:
        """Start over, as in a process without such steps (after a fork)."""
        if self._clock is not None:
            self._clock.stop()
        self._kineto.forget()
        self._clock = None
        self.touched = False
        self._forks.forget()
        self._due_step: int | None = None
        self._followed = self._reopened = False
        self._step = 0
        self._attempts = 0
        self._is_warm = False
        self._wanted = 0
        self._start_ns = 0
        self._bounds: list[tuple[int, int, int]] = []
        self._readings: list[tuple[int, int]] = []

    def follow(self, step: int) -> None:
        """A traced window has closed: the clock is due some steps later, once per loop.

        Args:
            step: Number of the step that begins.
        """
        if not self._followed:
            self._followed = True
            self._due_step = step + _USUAL_STEPS + 1

    def reopen(self) -> None:
        """The step time has changed for good, once: the clock follows the next window, too.

        What it notes replaces what was noted of the steps before.
        """
        if not self._reopened:
            self._reopened, self._followed, self._attempts = True, False, 0

    def needs(self, step: int) -> bool:
        """Whether `next_step` must be called for a step.

        Args:
            step: Number of the step that begins.
        """
        return self.touched or (self._due_step is not None and step >= self._due_step)

    def next_step(self, step: int, *, ready: bool, step_ns: int, end_ns: int) -> None:
        """A step begins: start, continue or stop the clock; never raises.

        Args:
            step: Number of the step that begins: its line in the log, from 0.
            ready: Whether nothing was compiled lately.
            step_ns: Length of the step that has ended.
            end_ns: When that was, on the clock of `now_ns`.
        """
        self.touched = self._clock is not None
        self._step = step
        self._forks.next_step(step)
        try:
            if graph_task() >= 0:  # where starting or stopping a profiler crashes
                self._due_step = None
                self._is_warm = False  # this step and the next one count as one
            elif self._clock is not None:
                self._advance(self._clock, end_ns, ready=ready)
            elif self._due_step is not None:
                self._try_to_open(step_ns, ready=ready)
            self._start_ns = now_ns()  # what has passed since the boundary is not the program's
        except Exception as error:
            self.abandon()
            self._recorder.window_failed(error)

    def _try_to_open(self, step_ns: int, *, ready: bool) -> None:
        """Open, unless something else profiles or traces, or the loop forks or compiles."""
        if not self._may_open(step_ns):
            self._due_step = None
        elif ready and self._forks.leave_room and not self._own_profilers.are_active():
            self.touched = True
            self._open(step_ns)

    def _may_open(self, step_ns: int) -> bool:
        """Whether there will be a chance to open at all."""
        return (
            self._step <= (self._due_step or 0) + _MOST_WAITING
            and threading.get_ident() == self._home
            and not is_in_use()
            and step_ns <= _LONGEST_STEP_NS
        )

    def _open(self, step_ns: int) -> None:
        """Start the profiler and the clock."""
        from torch.profiler import ProfilerActivity

        self._due_step = None
        self._attempts += 1
        self._wanted = _STEPS if (_STEPS + 1) * step_ns <= _MOST_NS else 1
        self._is_warm = (self._wanted + 1) * step_ns > _MOST_NS
        self._bounds = []
        self._kineto.start(activities=[ProfilerActivity.CPU])
        with hidden_from_modes():
            self._readings = _mark_thread()
        modules = self._modules = ModuleCalls()
        self._clock = LineClock(modules)
        if not self._clock.start((self._wanted + 1) * step_ns):
            self.abandon()

    def _advance(self, clock: LineClock, end_ns: int, *, ready: bool) -> None:
        """Pass a step boundary; after the last step, close."""
        if not (ready and clock.is_whole()):
            self._end_early(clock)
            return
        if self._is_warm:
            self._bounds.append((self._step - 1, self._start_ns, end_ns))
        self._is_warm = True
        if len(self._bounds) >= self._wanted:
            self._close()

    def _end_early(self, clock: LineClock) -> None:
        """Keep what is complete, else try again later if there is a chance."""
        if self._bounds:
            self._close()
        elif clock.is_hopeless:
            self.abandon()
        else:
            self.retry()

    def retry(self) -> None:
        """Stop here and keep nothing; the clock is due again later; never raises."""
        if self._clock is not None:
            self.abandon()
            if self._attempts < _MOST_ATTEMPTS:
                self._due_step = self._step + _USUAL_STEPS

    def _close(self, *, goes_on: bool = True) -> None:
        """Stop, and write what was noted."""
        clock, profiler, bounds = self._clock, self._kineto.profiler, self._bounds
        modules, self._modules = self._modules, None
        if clock is None or modules is None:
            return
        names = modules.names()
        self.abandon(goes_on=goes_on)
        results, readings = profiler.profiler.kineto_results, self._readings
        events = _events(results, readings)
        if events is None:
            bounds = bounds[-1:]
            events = _events(results, readings, bounds[0][1] - EPOCH_OFFSET_NS)
        if events is None:
            return
        marks = Marks(clock.times, clock.places, clock.depths, clock.costs(), clock.inside)
        steps = StepRows(Operations(events), marks)
        rows = [
            (step, steps.of(start - EPOCH_OFFSET_NS, end - EPOCH_OFFSET_NS))
            for step, start, end in bounds
        ]
        self._recorder.keep(LINES_FILE, packed(rows, clock, names))

    def abandon(self, *, goes_on: bool = True) -> None:
        """Stop the clock and the profiler, and keep nothing; never raises.

        Kineto attaches CUPTI with any profile of a process that uses CUDA.

        Args:
            goes_on: Whether further steps follow.
        """
        clock, self._clock = self._clock, None
        if clock is not None:
            clock.stop()
        if self._modules is not None:
            self._modules.forget()
        if self._kineto.profiler is not None:
            self._kineto.discard(detach=goes_on and device.is_in_use())

    def _close_before_fork(self) -> bool:
        """Keep the complete steps, else try again later; see `ProfilerWindow`."""
        if threading.get_ident() != self._home or graph_task() >= 0:
            return False
        self.pause()
        return True

    def pause(self) -> None:
        """No step comes for a while: keep the complete steps, else try again; never raises."""
        if self._bounds:
            self.finish(goes_on=True)
        else:
            self.retry()

    def finish(self, *, goes_on: bool = False) -> None:
        """No further step comes: keep the complete steps; never raises.

        Args:
            goes_on: Whether steps come later all the same.
        """
        try:
            if self._bounds:
                self._close(goes_on=goes_on)
        except Exception as error:
            self._recorder.window_failed(error)
        finally:
            self.abandon(goes_on=goes_on)


def _mark_thread() -> list[tuple[int, int]]:
    """Record events by which the operations of this thread are recognised.

    Returns:
        Times before and after the start of each, by `time.perf_counter_ns`.
    """
    from torch.autograd.profiler import record_function

    found = []
    for _ in range(_READINGS):
        here = record_function(_HERE)
        before_ns = time.perf_counter_ns()
        with here:
            found.append((before_ns, time.perf_counter_ns()))
    return found


def _events(
    results: Any, readings: Sequence[tuple[int, int]], from_ns: int = 0
) -> list[Event] | None:
    """What the profiler has recorded of the driving thread; None if it is too much.

    Args:
        results: Results of Kineto.
        readings: Result of `_mark_thread`.
        from_ns: What starts before is left out.
    """
    found = results.events()
    if len(found) > (_MOST_RECORDED if from_ns else _MOST_EVENTS):
        return None
    here = sorted((e for e in found if e.name() == _HERE), key=_start)
    if len(here) != len(readings):
        return None
    thread, offset_ns = here[0].start_thread_id(), _offset_ns([_start(e) for e in here], readings)
    if from_ns:
        found = list(_outermost(e for e in found if _start(e) - offset_ns >= from_ns))
    if len(found) > _MOST_EVENTS:
        return None
    return [
        Event(start, start + _duration(e), e.name(), not _is_annotation(e))
        for e in found
        if e.start_thread_id() == thread and not e.is_async()
        for start in (_start(e) - offset_ns,)
    ]


def _outermost(events: Iterable[Any]) -> Iterator[Any]:
    """Events without those that operations of the same thread have called themselves.

    Each read of a single element makes two, and each row of a tensor one, which is most of them
    where there are very many.
    """
    ends: dict[int, int] = {}
    for event in sorted(events, key=lambda e: (_start(e), -_duration(e))):
        start, thread = _start(event), event.start_thread_id()
        if start + _duration(event) <= ends.get(thread, 0):
            continue
        if is_unit(event.name()) and not (_is_annotation(event) or event.is_async()):
            ends[thread] = start + _duration(event)
        yield event


def _offset_ns(starts: Sequence[int], readings: Sequence[tuple[int, int]]) -> int:
    """By how much Kineto's clock is ahead of the other, by the reading that took the least time.

    Both run alike, but are microseconds apart, which is as long as an operation.
    """
    found = zip(starts, readings, strict=True)
    return min((after - before, start - (before + after) // 2) for start, (before, after) in found)[
        1
    ]


def _start(event: Any) -> int:
    """Start of an event, ns; versions before 2.4 count in µs."""
    return int(event.start_ns() if hasattr(event, "start_ns") else event.start_us() * 1000)


def _duration(event: Any) -> int:
    return int(event.duration_ns() if hasattr(event, "duration_ns") else event.duration_us() * 1000)


def _is_annotation(event: Any) -> bool:
    """Whether an event is a range of the program or of a library, and no operation."""
    if hasattr(event, "is_user_annotation"):
        return bool(event.is_user_annotation())
    return bool(event.scope() == _USER_SCOPE)
