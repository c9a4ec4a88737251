"""Windows of steps under `torch.profiler`, from their opening to their files."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
from typing import TYPE_CHECKING

from stepwhy.capture.clock import now_ns
from stepwhy.capture.process import lifetime
from stepwhy.capture.profiler_conflicts import GiveWay
from stepwhy.capture.torch.own_profilers import Profilers
from stepwhy.capture.torch.trace_file import write_trace
from stepwhy.capture.torch.window_limits import Budget, WindowTooLargeError, warm_up_steps

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from stepwhy.capture.recorder import Recorder

# The first after the warm-up, the others when the step time has changed for good.
_MOST_WINDOWS = 3
_LOOP_IN_THREAD = (
    "the steps were timed, but not profiled: the training runs in another thread than the one that "
    "imported torch, from which the profiler does not start quietly. Import torch in that thread"
)
_STEP_IN_BACKWARD = (
    "the steps were timed, but not profiled: the optimizer steps inside the backward pass, where "
    "the profiler must not start. Call stepwhy.step() at the end of each step"
)
_OWN_PROFILER = "torch.profiler"
_LOG_LEVEL_VARIABLE = "KINETO_LOG_LEVEL"


class ProfilerWindow:
    """Profiled stretches of steps, one at a time.

    Args:
        recorder: Where the windows go.

    Attributes:
        wanted: Whether the next one waits to be opened.
        touched: Whether the profiler was started, running, stopped or exported in the step that
            is under way: its time is not the training's own.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._others = GiveWay(recorder)
        self._profilers = profilers()
        self._profilers.watch(self.give_way)
        self.forget()
        lifetime.on_end(self._finish_at_exit)

        # Where the process's first profile is started elsewhere, Kineto complains on stderr.
        self._home = threading.get_ident()

    def forget(self) -> None:
        """Begin as in a process without a window (after a fork)."""
        self.touched = False
        self.wanted = True
        self._opened = 0
        self._step = 0
        self._others.forget()
        self._profiler: Any = None
        self._budget: Budget | None = None
        self._warm_up_left = 0
        self._first_step = 0
        self._last_step = 0
        self._start_ns = 0
        self._end_ns = 0

    def needs(self, step: int) -> bool:
        """Whether `next_step` has to be called for a step.

        Args:
            step: Number of the step that begins.
        """
        return self.touched or (self.wanted and self._others.may_open(step))

    def again(self) -> None:
        """The loop is not what the last window showed: one more, if there were not too many."""
        self.wanted = self._opened < _MOST_WINDOWS

    def next_step(self, step: int, *, start: bool, step_ns: int = 0) -> None:
        """A step begins: open the window, go on, or close it.

        Args:
            step: Number of the step that begins: the line that it will have in the log, from 0.
            start: Whether the loop is ready for a window.
            step_ns: Length of the step that has ended; 0 when it is not known.
        """
        self.touched = self._profiler is not None
        self._step = step
        try:
            if self._in_backward(start=start):
                return
            if self._profiler is not None:
                self._advance(step)
            elif start and self.wanted and self._others.may_open(step):
                self._try_to_open(step, step_ns)
        except WindowTooLargeError as error:
            self.abandon()
            self._too_large(error)
        except Exception as error:
            self.abandon()
            self._recorder.window_failed(error)

    def _in_backward(self, *, start: bool) -> bool:
        """Whether the step ends in a backward pass: a profiler that starts or stops there crashes.

        A hook of a parameter's gradient may step an optimizer.
        """
        if _graph_task() < 0:
            return False
        if start and self.wanted:
            self.wanted = False
            self._recorder.message("warning", "step-in-backward", _STEP_IN_BACKWARD)
        return True

    def _try_to_open(self, step: int, step_ns: int) -> None:
        """Open, unless somebody else profiles or the loop runs in a thread of its own."""
        if threading.get_ident() != self._home:
            self.wanted = False
            self._recorder.message("warning", "loop-in-thread", _LOOP_IN_THREAD)
        elif self._profilers.are_on():
            self._others.note(_OWN_PROFILER, step)
        else:
            self.touched = True
            self._open(step, step_ns)

    def _open(self, step: int, step_ns: int) -> None:
        """Start the profiler."""
        from torch import cuda
        from torch.profiler import ProfilerAction, ProfilerActivity, profile

        self.wanted = False
        self._opened += 1
        warm_up = self._warm_up_left = warm_up_steps(step_ns)

        def schedule(number: int) -> Any:
            return ProfilerAction.WARMUP if number < warm_up else ProfilerAction.RECORD

        activities = [ProfilerActivity.CPU]
        if cuda.is_available():
            activities.append(ProfilerActivity.CUDA)
        profiler = profile(activities=activities, schedule=schedule)
        with _quiet(), self._profilers.starting_ours():
            profiler.start()
        self._profiler = profiler
        self._budget = None
        if not warm_up:
            self._begin(step)

    def _begin(self, step: int) -> None:
        """The first step that is kept begins."""
        self._first_step = step
        self._start_ns = self._end_ns = now_ns()
        self._budget = Budget(self._start_ns)

    def _advance(self, step: int) -> None:
        """Pass a step boundary on; after the last step, close."""
        if self._budget is None:
            self._profiler.step()
            self._warm_up_left -= 1
            if not self._warm_up_left:
                self._begin(step)
            return
        self._end_ns = now_ns()
        self._last_step = step - 1
        if self._budget.spend(self._end_ns):
            self._profiler.step()
        else:
            self._close()

    def _close(self) -> None:
        """Stop the profiler and write what it saw."""
        profiler, self._profiler = self._profiler, None
        profiler.stop()
        about = {
            "kind": "torch-profiler",
            "first_step": self._first_step,
            "last_step": self._last_step,
            "start_ns": self._start_ns,
            "end_ns": self._end_ns,
        }

        self._recorder.window(about, lambda folder: write_trace(profiler, folder))

    def _too_large(self, error: WindowTooLargeError) -> None:
        """Say that a window was dropped, and why."""
        text = f"a traced window of steps was not kept: {error}"
        self._recorder.message("warning", "window-too-large", text)

    def abandon(self) -> None:
        """Stop the profiler and keep nothing; never raises."""
        profiler, self._profiler = self._profiler, None
        if profiler is None:
            return
        try:
            profiler.stop()
        except Exception:
            return

    def give_way(self) -> None:
        """Another profiler is about to start, so an open window ends here; never raises."""
        if self._profiler is None:
            return
        self.abandon()
        self._opened -= 1
        self.wanted = True
        self._others.gave_way(_OWN_PROFILER, self._step)

    def _finish_at_exit(self) -> None:
        """The script ends inside the window: keep it when it holds a complete step."""
        if self._profiler is None:
            return
        try:
            if self._budget is not None and self._start_ns < self._end_ns:
                self._close()
        except WindowTooLargeError as error:
            self._too_large(error)
        except Exception as error:
            self._recorder.window_failed(error)
        finally:
            self.abandon()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep Kineto from writing its stages to the training's stderr.

    It reads the variable once, when a profiler first starts.
    """
    if _LOG_LEVEL_VARIABLE in os.environ:
        yield
        return
    os.environ[_LOG_LEVEL_VARIABLE] = "99"
    try:
        yield
    finally:
        del os.environ[_LOG_LEVEL_VARIABLE]


def _graph_task() -> int:
    """Number of the backward pass that the calling thread works on; -1 outside of any."""
    core: Any = sys.modules.get("torch._C")
    number = getattr(core, "_current_graph_task_id", None)
    return -1 if number is None else int(number())


@functools.cache
def profilers() -> Profilers:
    """The ones of this process."""
    return Profilers()
