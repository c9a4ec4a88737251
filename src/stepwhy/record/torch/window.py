"""Trace windows of steps with `torch.profiler`."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
from typing import TYPE_CHECKING

from stepwhy.record.core.clock import now_ns
from stepwhy.record.core.forks import Forks
from stepwhy.record.core.process import lifetime
from stepwhy.record.torch import device, request_thread
from stepwhy.record.torch.function_modes import untold
from stepwhy.record.torch.gradient_walk import GradientWalk
from stepwhy.record.torch.own_profilers import OwnProfilers
from stepwhy.record.torch.trace_file import write_trace
from stepwhy.record.torch.window_limits import (
    Budget,
    MemoryGrewError,
    WindowTooLargeError,
    warm_up_steps,
)
from stepwhy.record.windows.common_windows import RequestedStep, may_open
from stepwhy.record.windows.profiler_conflicts import ProfilerConflict

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path
    from typing import Any

    from stepwhy.record.core.recorder import Recorder

# The first after the warm-up, the others when the step time has changed for good.
_MOST_WINDOWS = 3
# A loop that is paused after every few steps never completes a window.
_MOST_CUT_SHORT = 3
# Windows in which the process grew too much; in one, the training itself may have grown.
_MOST_GROWN = 2
# Types and shapes are recorded in steps of at least this length: noting those of an operation takes
# 0.7 µs, which short steps on a CPU would spend mostly on that. On a GPU they always are: launching
# an operation takes 5 to 10 µs, and work and bytes of kernels follow from nothing else.
_SHAPES_NS = 5_000_000
_LOOP_IN_THREAD = (
    "the steps were timed, but not profiled: the training runs in a thread that did not import "
    "torch, where the profiler prints warnings when it starts. Import torch in that thread"
)
_STEP_IN_BACKWARD = (
    "the steps were timed, but not profiled: the optimizer steps inside the backward pass, where "
    "the profiler must not start. Call stepwhy.step() at the end of each step"
)
_NO_KERNELS = (
    "the training uses a GPU, but the profiler recorded none of its kernels, so the time on the "
    "device is unknown. Something else may profile it (nsys, ncu, DCGM), or an earlier profile in "
    "the process has left CUPTI unusable"
)
_OWN_PROFILER = "torch.profiler"
_NOTHING = contextlib.nullcontext()
_LOG_LEVEL_VARIABLE = "KINETO_LOG_LEVEL"


class ProfilerWindow:
    """Profiled sequences of steps, one at a time.

    Args:
        recorder: Writes the windows.
        walk: Looks at the graphs of the first kept step.

    Attributes:
        is_due: Whether the next window waits to be opened.
        kept: Whether a window was written.
        touched: Whether the profiler started, ran, stopped or exported in the current step, so
            that its time is not the training's own.
    """

    def __init__(self, recorder: Recorder, walk: GradientWalk | None = None) -> None:
        self._recorder = recorder
        self._walk = walk or GradientWalk(recorder)
        self._conflict = ProfilerConflict(recorder)
        self._forks = Forks(recorder, self._close_before_fork)
        self._own_profilers = own_profilers()
        self._own_profilers.watch(self.yield_profiler, recorder)
        self._threads: set[str] = set()
        self._is_recording = False
        self._requested = RequestedStep()
        self.forget()
        lifetime.on_end(self.finish)
        # Kineto writes a warning to stderr if the first profile starts in another thread.
        self._home = threading.get_ident()

    def forget(self) -> None:
        """Start over, as in a process without a window (after a fork)."""
        if self._is_recording:
            self._is_recording = False
            stop_recording()
        self._walk.forget()
        self.touched = False
        self.is_due = True
        self.kept = False
        self._opened = 0
        self._most = _MOST_WINDOWS
        self._requested.forget()
        self._cut_short = self._grew = 0
        self._step = 0
        self._conflict.forget()
        self._forks.forget()
        self._profiler: Any = None
        self._on_device = False
        self._budget: Budget | None = None
        self._warm_up_left = 0
        self._first_step = 0
        self._last_step = 0
        self._start_ns = 0
        self._end_ns = 0

    @property
    def running(self) -> bool:
        """Whether the profiler runs."""
        return self._profiler is not None

    def needs(self, step: int) -> bool:
        """Whether `next_step` must be called for a step.

        Args:
            step: Number of the step that begins.
        """
        if self.touched:
            return True
        return self.is_due and self._conflict.may_open(step)

    def reopen(self) -> None:
        """Allow one more window, within a limit: the step time has changed for good."""
        self.is_due = self._opened < self._most

    @property
    def is_requested(self) -> bool:
        """Whether a window was requested from outside, and waits for its step."""
        return self._requested.is_open

    def request(self, step: int) -> bool:
        """Open a window at a step, as was requested from outside.

        Args:
            step: Number of the step: its line in the log, from 0.

        Returns:
            Whether it will, unless something comes in between.
        """
        if self._profiler is not None or not self._requested.accept(step):
            return False
        self._most += 1
        self.is_due = True
        return True

    def end_step(self) -> None:
        """End the step in the trace: what stepwhy does until the next one is not part of it.

        Without the profiler's own range of the step, which is no public name, the step ends where
        the profiler is told of the next.
        """
        step = getattr(self._profiler, "step_rec_fn", None)
        if step is not None and graph_task() < 0:
            step.__exit__(None, None, None)
            self._profiler.step_rec_fn = None

    def next_step(self, step: int, *, start: bool, step_ns: int = 0) -> None:
        """A step begins: open, continue or close the window; never raises.

        Args:
            step: Number of the step that begins: its line in the log, from 0.
            start: Whether the loop is ready for a window.
            step_ns: Length of the step that has ended; 0 if unknown.
        """
        self.touched = self._profiler is not None
        self._step = step
        self._forks.next_step(step)
        try:
            if self._in_backward(start=start):
                return
            if self._profiler is not None:
                self._advance(step)
            elif start and self.is_due and self._conflict.may_open(step) and self._opens_at(step):
                self._try_to_open(step, step_ns)
        except WindowTooLargeError as error:
            self.abandon()
            self._try_again(error)
        except Exception as error:
            self.abandon()
            self._requested.refuse()
            self._recorder.window_failed(error)

    def _opens_at(self, step: int) -> bool:
        """Whether it is the requested step; without a request, one at which all ranks open."""
        return self._requested.may_open(step) if self._requested.is_open else may_open(step)

    def _try_again(self, error: WindowTooLargeError) -> None:
        """Allow another window, once, if the training itself may have taken the memory."""
        self._grew += isinstance(error, MemoryGrewError)
        self.is_due = 0 < self._grew < _MOST_GROWN
        if not self.is_due:
            self._report_too_large(error)

    def _in_backward(self, *, start: bool) -> bool:
        """Whether the step ends in a backward pass, where starting or stopping a profiler crashes.

        This happens when a gradient hook steps an optimizer.
        """
        if graph_task() < 0:
            return False
        if start and self.is_due:
            self.is_due = False
            self._recorder.message("warning", "step-in-backward", _STEP_IN_BACKWARD)
        return True

    def _try_to_open(self, step: int, step_ns: int) -> None:
        """Open, unless the training profiles itself, forks, or loops in another thread."""
        if threading.get_ident() != self._home:
            self.is_due = False
            self._recorder.message("warning", "loop-in-thread", _LOOP_IN_THREAD)
        elif self._own_profilers.are_active():
            self._conflict.report(_OWN_PROFILER, step)
        elif not self._forks.leave_room:
            self._forks.report(step)
            if self._forks.leave_none:
                self._conflict.postpone(step)
        else:
            self.touched = True
            self._open(step, step_ns)

    def _open(self, step: int, step_ns: int) -> None:
        """Start the profiler."""
        from torch.profiler import ProfilerAction, ProfilerActivity, profile

        self.is_due = False
        self._requested.met()
        self._opened += 1
        warm_up = self._warm_up_left = warm_up_steps(step_ns)
        on_device = self._on_device = device.is_in_use()

        def schedule(number: int) -> Any:
            # On a device, the warm-up is recorded as well: a profiler that stops within its
            # warm-up has recorded nothing; see `launch_nothing`.
            warms_up = number < warm_up and not on_device
            return ProfilerAction.WARMUP if warms_up else ProfilerAction.RECORD

        activities = [ProfilerActivity.CPU]
        more: dict[str, Any] = {"record_shapes": on_device or step_ns >= _SHAPES_NS}
        if on_device:
            activities.append(ProfilerActivity.CUDA)
            more |= _recording_waits()
        profiler = profile(activities=activities, schedule=schedule, **more)
        before = request_thread.threads()
        with quiet(), self._own_profilers.starting_stepwhys(), self._forks.switching, untold():
            self._is_recording = True
            profiler.start()
            self._profiler = profiler
        self._threads = request_thread.threads() - before
        self._budget = None
        if not warm_up:
            self._begin(step)

    def _begin(self, step: int) -> None:
        """The first kept step begins."""
        self._first_step = step
        self._start_ns = self._end_ns = now_ns()
        self._budget = Budget(self._start_ns)
        self._walk.begin()

    def _advance(self, step: int) -> None:
        """Pass a step boundary to the profiler; after the last step, close."""
        self._stop_request_thread()
        if self._budget is None:
            with self._forks.switching, untold():
                self._profiler.step()
            self._warm_up_left -= 1
            if not self._warm_up_left:
                self._begin(step)
            return
        self._walk.end()
        self._end_ns = now_ns()
        self._last_step = step - 1
        if self._budget.spend(self._end_ns):
            with untold():
                self._profiler.step()
        else:
            self._close(goes_on=True)

    def _close(self, *, goes_on: bool = False) -> None:
        """Stop the profiler and write its trace.

        Args:
            goes_on: Whether further steps follow.
        """
        with self._forks.switching:
            profiler, self._profiler = self._profiler, None
            with self._detaching() if goes_on else _NOTHING, untold():
                profiler.stop()
            self._is_recording = False
        self._stop_request_thread()
        about: dict[str, Any] = {
            "kind": "torch-profiler",
            "first_step": self._first_step,
            "last_step": self._last_step,
            "start_ns": self._start_ns,
            "end_ns": self._end_ns,
        }

        def write(folder: Path) -> None:
            has_kernels = write_trace(profiler, folder)
            if self._on_device and not has_kernels and device.holds_tensors():
                about["kernels_missing"] = True

        self._walk.report()
        self._recorder.window(about, write)
        self.kept = True
        if "kernels_missing" in about:
            self._recorder.message("warning", "kernels-missing", _NO_KERNELS)

    def _detaching(self) -> AbstractContextManager[None]:
        """A context in which the profiler stops, and lets the device be as fast as before."""
        return device.detaching_cupti() if self._on_device else _NOTHING

    def _report_too_large(self, error: WindowTooLargeError) -> None:
        """Report that a window was dropped, and why."""
        text = f"a traced window of steps was not kept: {error}"
        self._recorder.message("warning", "window-too-large", text)

    def abandon(self) -> None:
        """Stop the profiler and keep nothing; never raises."""
        self._walk.end()
        with self._forks.switching:
            profiler, self._profiler = self._profiler, None
            if profiler is not None:
                if self._on_device:
                    device.launch_nothing()
                with contextlib.suppress(Exception), self._detaching(), untold():
                    profiler.stop()
            self._is_recording = False
        self._stop_request_thread()

    def _stop_request_thread(self) -> None:
        """Stop what the profiler has started and would leave running."""
        threads, self._threads = self._threads, set()
        if threads:
            with contextlib.suppress(Exception):
                request_thread.stop(threads)

    def yield_profiler(self) -> None:
        """End an open window here: another profiler is about to start; never raises."""
        if self._profiler is not None:
            self._conflict.report(_OWN_PROFILER, self._step)
            self._drop()
            self._conflict.postpone(self._step)

    def _drop(self) -> None:
        """Drop the open window; it does not count."""
        self.abandon()
        self._opened -= 1
        self.is_due = True

    def _close_before_fork(self) -> bool:
        """Keep the window if it holds a complete step, else try again later.

        It can be closed by its own thread only, and not in a backward pass. In any other fork it
        stays open, and the child closes its copy.
        """
        self._stop_request_thread()
        if threading.get_ident() != self._home or graph_task() >= 0:
            return False
        if self._budget is not None and self._start_ns < self._end_ns:
            self.finish(goes_on=True)
        elif self._profiler is not None:
            self._drop()
            if self._forks.dropped(self._step):
                self._conflict.postpone(self._step)
        return True

    def pause(self) -> None:
        """No step comes for a while; never raises.

        The window is kept if it holds a complete step; otherwise another one opens later.
        """
        if self._budget is not None and self._start_ns < self._end_ns:
            self.finish(goes_on=True)
        elif self._profiler is not None:
            self.abandon()
            self._opened -= 1
            self._cut_short += 1
            self.is_due = self._cut_short < _MOST_CUT_SHORT

    def finish(self, *, goes_on: bool = False) -> None:
        """No further step comes: keep the window if it holds a complete step; never raises.

        Args:
            goes_on: Whether steps come later all the same.
        """
        if self._profiler is not None:
            self._finish_window(goes_on=goes_on)
        if not goes_on:
            self._walk.finish()

    def _finish_window(self, *, goes_on: bool) -> None:
        """Keep the open window if it holds a complete step."""
        try:
            if self._budget is not None and self._start_ns < self._end_ns:
                self._close(goes_on=goes_on)
        except WindowTooLargeError as error:
            self._report_too_large(error)
        except Exception as error:
            self._recorder.window_failed(error)
        finally:
            self.abandon()


def _recording_waits() -> dict[str, Any]:
    """Arguments of a profiler that records which stream waits for which event, if it can.

    Versions before 2.1 have no such option.
    """
    try:
        from torch._C._profiler import _ExperimentalConfig

        config = _ExperimentalConfig(enable_cuda_sync_events=True)
    except (ImportError, TypeError):
        return {}
    return {"experimental_config": config}


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep Kineto from logging its stages to the training's stderr.

    Kineto reads the variable once, when a profiler first starts.
    """
    if _LOG_LEVEL_VARIABLE in os.environ:
        yield
        return
    os.environ[_LOG_LEVEL_VARIABLE] = "99"
    try:
        yield
    finally:
        del os.environ[_LOG_LEVEL_VARIABLE]


def graph_task() -> int:
    """Number of the backward pass of the calling thread; -1 outside of any."""
    core: Any = sys.modules.get("torch._C")
    number = getattr(core, "_current_graph_task_id", None)
    return -1 if number is None else int(number())


def stop_recording() -> None:
    """Stop the copy of a profiler that the parent could not stop: it crashes a child at its end."""
    from torch._C import _autograd

    with contextlib.suppress(Exception):
        if _autograd._profiler_enabled():
            _autograd._disable_profiler()


@functools.cache
def own_profilers() -> OwnProfilers:
    """The tracker of this process."""
    return OwnProfilers()
