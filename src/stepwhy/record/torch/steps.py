"""Log the steps of a PyTorch loop and open profiler windows: a step ends after an optimizer step.

Which optimizer that is, `clock_choice` says. With gradient accumulation a step covers several
batches. A step that a `GradScaler` skips, because gradients are not finite, counts too. One that is
captured in a CUDA graph counts whenever that is replayed.

What runs in every step does as little as possible; see `step_log`.
"""

from __future__ import annotations

import weakref
from threading import get_ident
from time import perf_counter_ns
from typing import TYPE_CHECKING

from stepwhy.record.core import registry
from stepwhy.record.core.clock import EPOCH_OFFSET_NS, now_ns
from stepwhy.record.core.compiled_code import never_compiled
from stepwhy.record.core.process.threads import threads_and_cores
from stepwhy.record.steps.run_times import RunTimes
from stepwhy.record.steps.stall_watch import Standing
from stepwhy.record.steps.step_log import BATCH_STEPS, LONG_STEP_NS, StepLog
from stepwhy.record.steps.step_marks import marks
from stepwhy.record.steps.watched_loop import WatchedLoop
from stepwhy.record.torch.clock_choice import ClockChoice
from stepwhy.record.torch.cuda_graphs import CudaGraphs
from stepwhy.record.torch.flight_recorder import recorded_collectives, takes_part
from stepwhy.record.torch.function_modes import hidden_from_modes
from stepwhy.record.torch.semantic_step import SemanticStep
from stepwhy.record.watchers.parameters import ParameterTypes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from stepwhy.record.core.recorder import Recorder
    from stepwhy.record.steps.meters import InputWait
    from stepwhy.record.torch.compilations import Compilations
    from stepwhy.record.torch.line_window import LineWindow
    from stepwhy.record.torch.window import ProfilerWindow

# No window opens earlier: the first steps include memory allocation and kernel selection.
_EARLIEST_STEP = 4
# Steps after a compilation until the loop counts as warm. A loop that never stops compiling is
# profiled after so many steps all the same.
_STEPS_AFTER_COMPILING = 2
_COMPILING_FOREVER = 50


class StepObserver(WatchedLoop):
    """Log the steps, and open a profiler window when the loop has warmed up.

    Args:
        recorder: Writes the steps.
        window: The profiler windows.
        waits: The waits for batches.
        compilations: The compilations by `torch.compile`.
        lines: The steps in which the running lines are noted.

    Attributes:
        by_hand: Whether the loop may have no optimizer, so that its backward passes count.
        calls: Steps of optimizers.
        driver: The thread that makes the steps; 0 before the first one.
        graphs: The CUDA graphs that hold steps.
    """

    window: ProfilerWindow

    def __init__(
        self,
        recorder: Recorder,
        window: ProfilerWindow,
        waits: InputWait,
        compilations: Compilations,
        lines: LineWindow,
    ) -> None:
        super().__init__(recorder, window, waits, recorded_collectives)
        self._lines = lines
        self._compilations = compilations
        compilations.time.on_add = self._look_closer
        self._log = StepLog(recorder, self.compare)
        self._choice = ClockChoice()
        self._passes = self._choice.passes
        self._semantic = SemanticStep(recorder, window, compilations)
        self._types = ParameterTypes(recorder)
        self.graphs = CudaGraphs()
        self.forget()

    def forget(self) -> None:
        """Start over, as in a process that has seen no step (after a fork)."""
        super().forget()
        self._log.forget()
        self._types.forget()
        self.graphs.forget()
        self._semantic.forget()
        self._is_paused = False
        self._made_ns = 0
        self._clock: weakref.ref[Any] | None = None
        self.driver = 0
        self._choice.forget()
        self._run_times = RunTimes()
        self.by_hand = True
        self._observe_fully()
        self._last_end_ns = 0
        self._compiled_at = 0
        self._optimizer_ns: int | None = 0
        self.calls = 0

    def optimizer_made(self) -> None:
        """The program makes its first optimizer of a class, so that its steps are near."""
        self._choice.has_optimizer = True
        self._made_ns = now_ns()
        self._watch_stalls()

    def _watch_stalls(self) -> None:
        if takes_part():
            self._stalls.start()

    @never_compiled
    def stepped(self, optimizer: Any) -> None:
        """An optimizer has stepped; never raises.

        Nearly all steps of a fast loop return early: each call of another function would cost it
        about a microsecond, since the training evicts this code from the CPU caches.
        """
        self.calls += 1
        end_ns = perf_counter_ns() + EPOCH_OFFSET_NS
        if end_ns < self._only_noted_until_ns and self._clock() is optimizer:  # type: ignore[misc]
            notes = self._log.notes
            if len(notes) < BATCH_STEPS:
                notes.append(end_ns)
                return
        if self.calls == 1:
            registry.began("optimizer_steps")
        self._ended(optimizer)

    @never_compiled
    def passed_backward(self) -> None:
        """A backward pass has ended; never raises."""
        clock = self._clock and self._clock()
        if clock is None or clock is self._passes:
            self._ended(self._passes)

    @never_compiled
    def capture_begins(self, graph: Any) -> None:
        """A graph is about to be captured: no step ends until that has ended; never raises."""
        self._only_noted_until_ns = 0
        self.graphs.begins(graph)

    @never_compiled
    def replayed(self, graph: Any) -> None:
        """A graph that holds a step was launched; never raises."""
        clock = self.graphs.clock_of(graph)
        if clock is None or clock is self._passes:
            self.passed_backward()
        else:
            self.stepped(clock)

    def _ended(self, optimizer: Any) -> None:
        """A step of an optimizer, or of what stands for one, has ended."""
        if self.graphs.captures(optimizer, stands_in=optimizer is self._passes):
            return
        if not self.recorder.alive:
            self._semantic.give_up()
            self.window.abandon()
            self._lines.abandon()
            return
        try:
            if self._clock is None or self._clock() is not optimizer:
                self._other_ended(optimizer)
            elif self.light:
                self._end_light_step()
            else:
                self._end_step(optimizer)
        except Exception as error:
            self.recorder.stop(error)

    def _other_ended(self, optimizer: Any) -> None:
        """A step has ended of another optimizer than the clock, which that may become."""
        self._only_noted_until_ns = 0
        clock = self._clock and self._clock()
        if (
            marks.marker is not None
            or marks.in_fit
            or not self._choice.takes_over(optimizer, clock)
        ):
            return
        ends = self._choice.take_over(optimizer, clock, self._log.count)
        self._types.log(lambda: _parameters(optimizer))
        self.recorder.describe(threads=_threads)
        self.begin(optimizer, ends)

    def begin(self, clock: Any, ends: Sequence[int] = ()) -> None:
        """Begin to log the steps of a new clock; the first one starts here, or at `ends[0]`.

        Args:
            clock: The optimizer, or the stand-in for steps that the training marks.
            ends: Times of its earlier steps in a row and of this one; these were only timed.
        """
        self._clock = weakref.ref(clock, self._lose_clock)
        self.driver = get_ident()
        self._is_paused = False
        self._watch_stalls()
        self.by_hand = clock is self._passes
        self._choice.others = {}
        self._compilations.take()
        self._pace.observe()
        self._observe_from_here()
        self._log.begin(ends[0] if ends else self._last_end_ns)
        if len(ends) > 1:
            self._log.notes += [*ends[1:-1], self._last_end_ns]
        self._lines.pause()
        self.window.next_step(self._log.count, start=False, step_ns=0)

    @never_compiled
    def _lose_clock(self, clock: object) -> None:
        """The clock is gone: another optimizer may follow it, or passes without one.

        Called while garbage is collected, which a compiled function may do.
        """
        if clock is self._clock:
            self.by_hand = True

    @never_compiled
    def pause(self) -> None:
        """What follows belongs to no step until `resume`; never raises."""
        try:
            self._is_paused = True
            self._log.write()
            self._semantic.give_up()
            self.window.pause()
            self._lines.pause()
        except Exception as error:
            self.recorder.stop(error)

    @never_compiled
    def resume(self) -> None:
        """Begin the next step here; never raises."""
        clock = self._clock and self._clock()
        if clock is None or not self.recorder.alive:
            return
        try:
            self.begin(clock)
        except Exception as error:
            self.recorder.stop(error)

    @never_compiled
    def add_optimizer(self, time_ns: int, calls: int) -> None:
        """Add the time of an optimizer's step that has returned to that of the step that runs.

        Args:
            time_ns: Its time.
            calls: `calls` when it began. If it is larger now, the optimizer has called another one,
                whose time would count twice: no times are logged then.
        """
        if self._optimizer_ns is not None:
            nested = self.calls != calls
            self._optimizer_ns = None if nested else self._optimizer_ns + time_ns

    def _observe_from_here(self) -> None:
        """Observe the step that begins, without what came before it."""
        self._optimizer_ns = self._optimizer_ns and 0
        self._observe_fully()
        self.start_meters()
        self._last_end_ns = now_ns()

    def _observe_fully(self) -> None:
        """Steps are no longer light."""
        self.light = self.input_wait.light = False
        self._only_noted_until_ns = 0

    def _look_closer(self) -> None:
        """Do not merely note the step that runs: something was compiled in it."""
        self._only_noted_until_ns = 0

    def _only_note_steps(self) -> None:
        """Until something is due, only note when steps end."""
        self._only_noted_until_ns = min(self._log.late_ns, self._pace.due_ns)

    def _end_light_step(self) -> None:
        """Note the end of a light step, and nothing else about it."""
        end_ns, log = now_ns(), self._log
        log.notes.append(end_ns)
        if self._compilations.fresh:
            log.add(self._compilations.take())
        if end_ns > log.late_ns or len(log.notes) >= BATCH_STEPS:
            log.write()
        if self._choice.others:
            self._choice.others = {}
        if self._pace.next_step(end_ns):
            self._only_note_steps()
        else:
            self._observe_from_here()

    def _end_step(self, optimizer: Any) -> None:
        """Note the end of an observed step.

        The clock is read last, so that this work counts for the step that caused it.
        """
        log, window, lines = self._log, self.window, self._lines
        if window.running:
            window.end_step()
        if len(log.notes) >= BATCH_STEPS or now_ns() > log.due_ns:
            log.write()
        start_ns, profiled = self._last_end_ns, int(self.touched)
        wait_ns, cpu_ns = self.input_wait.take(), self.thread_time.take()
        load = self.process_load.take()
        self._choice.others = {}
        self._last_end_ns = end_ns = now_ns()
        log.notes.append((end_ns, profiled, wait_ns, cpu_ns, load))
        if self._optimizer_ns:
            log.add(f',"optimizer_ns":{self._optimizer_ns}')
            self._optimizer_ns = 0
        count = log.count
        if self._compilations.fresh:
            self._compiled_at = count
            log.add(self._compilations.take())
        if end_ns - start_ns > LONG_STEP_NS:
            log.write()
        is_light = self._pace.next_step(end_ns)
        if window.needs(count):
            self._semantic.give_up()
            self._advance_window(end_ns - start_ns, profiled=bool(profiled))
        elif lines.needs(count) and not self._semantic.is_open:
            self._advance_window(end_ns - start_ns, profiled=bool(profiled))
        elif self._semantic.is_due:
            self._semantic.next_step(count, optimizer)
        elif is_light:
            self.light = self.input_wait.light = True
            self._only_note_steps()

    def reopen(self) -> None:
        """The step time has changed for good: trace, and note lines and hooks, once more."""
        super().reopen()
        self._lines.reopen()
        self._semantic.hooks.step_time_changed()

    def _standing(self) -> Standing | None:
        """The current step, for another thread; None while there is none.

        The first one begins when the optimizer is made, or so.
        """
        log = self._log
        since_ns = log.last_end_ns or self._made_ns
        if self._is_paused or not since_ns:
            return None
        return Standing(since_ns, log.count, tuple(log.recent_ns), self.thread_time.thread)

    def _step_count(self) -> int:
        """Number of steps so far, by their lines in the log."""
        return self._log.count

    @property
    def touched(self) -> bool:
        """Whether stepwhy profiles the current step, or notes its lines or operations."""
        return self.window.touched or self._lines.touched or self._semantic.touched

    def _advance_window(self, step_ns: int, *, profiled: bool) -> None:
        """Pass the step boundary to the window, or to the line clock, but not to both."""
        if not profiled:
            self._run_times.add(step_ns)
        window, lines, is_warm = self.window, self._lines, self._is_warm()
        count = self._log.count
        if lines.touched or not window.needs(count):
            lines.next_step(count, ready=is_warm, step_ns=step_ns, end_ns=self._last_end_ns)
            return
        window.next_step(count, start=is_warm, step_ns=step_ns)
        if window.touched and not window.running:
            lines.follow(count)

    def _is_warm(self) -> bool:
        """Whether the loop has warmed up."""
        count = self._log.count
        compiling = self._compiled_at and count - self._compiled_at < _STEPS_AFTER_COMPILING
        if compiling and count < _COMPILING_FOREVER:
            return False
        return count >= _EARLIEST_STEP and self._run_times.settled()


def _parameters(optimizer: Any) -> list[tuple[str, int]]:
    """Type and number of elements of each parameter of an optimizer."""
    with hidden_from_modes():
        return [
            (str(parameter.dtype).removeprefix("torch."), int(parameter.numel()))
            for group in getattr(optimizer, "param_groups", ())
            for parameter in group["params"]
        ]


def _threads() -> dict[str, int]:
    """Threads that an operation may use, and cores that the process may use."""
    import torch

    return threads_and_cores(torch.get_num_threads())
