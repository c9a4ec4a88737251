"""Trace windows of steps with `torch.profiler`."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from stepwhy.record.core.clock import now_ns
from stepwhy.record.torch import device
from stepwhy.record.torch.gradient_walk import GradientWalk
from stepwhy.record.torch.kineto import Kineto, graph_task, recording_waits
from stepwhy.record.torch.own_profilers import own_profilers
from stepwhy.record.torch.trace_file import write_trace
from stepwhy.record.torch.window_limits import Budget, MemoryGrewError, warm_up_steps
from stepwhy.record.windows.traced_window import TracedWindow

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from stepwhy.record.core.recorder import Recorder

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


class ProfilerWindow(TracedWindow):
    """Steps under `torch.profiler`, which marks them itself.

    Args:
        recorder: Writes the windows.
        walk: Looks at the graphs of the first kept step.
    """

    profiler_name = "torch.profiler"

    def __init__(self, recorder: Recorder, walk: GradientWalk | None = None) -> None:
        super().__init__(recorder)
        self._walk = walk or GradientWalk(recorder)
        self._kineto = Kineto(self._forks)
        self._own_profilers = own_profilers()
        self._own_profilers.watch(self.yield_profiler, recorder)
        # Kineto writes a warning to stderr if the first profile starts in another thread.
        self._home = threading.get_ident()
        self.forget()

    def forget(self) -> None:
        """Start over, as in a process without a window (after a fork)."""
        super().forget()
        self._walk.forget()
        self._kineto.forget()
        self._grew = 0
        self._on_device = False
        self._budget: Budget | None = None
        self._began_ns = self._step_ns = self._warm_up_left = 0

    def needs(self, step: int) -> bool:
        """Whether `next_step` must be called for a step.

        Args:
            step: Number of the step that begins.
        """
        if self.touched:
            return True
        return self.is_due and self._conflict.may_open(step)

    def end_step(self) -> None:
        """End the step in the trace: what stepwhy does until the next one is not part of it.

        Without the profiler's own range of the step, which is no public name, the step ends where
        the profiler is told of the next.
        """
        profiler = self._kineto.profiler
        step = getattr(profiler, "step_rec_fn", None)
        if step is not None and graph_task() < 0:
            step.__exit__(None, None, None)
            profiler.step_rec_fn = None

    def next_step(self, step: int, *, start: bool, step_ns: int | None = None) -> None:
        """A step begins: open, continue or close the window; never raises.

        Args:
            step: Number of the step that begins: its line in the log, from 0.
            start: Whether the loop is ready for a window.
            step_ns: Length of the step that has ended; None for the time since the last call.
        """
        if step_ns is None:
            began_ns, self._began_ns = self._began_ns, now_ns()
            step_ns = self._began_ns - began_ns if began_ns else 0
        self._step_ns = step_ns
        self._forks.next_step(step)
        super().next_step(step, start=start)

    def _try_to_open(self) -> None:
        """Open, unless the loop runs where the profiler must not start."""
        if graph_task() >= 0:
            self._refuse("step-in-backward", _STEP_IN_BACKWARD)
        elif threading.get_ident() != self._home:
            self._refuse("loop-in-thread", _LOOP_IN_THREAD)
        else:
            super()._try_to_open()

    def _refuse(self, slug: str, text: str) -> None:
        """Open no window, and report why."""
        self.is_due = False
        self._recorder.message("warning", slug, text)

    def _is_busy(self) -> bool:
        """Whether the training runs a profiler of its own."""
        return self._own_profilers.are_active()

    def _start(self) -> None:
        """Start the profiler; see `TracedWindow`."""
        from torch.profiler import ProfilerAction, ProfilerActivity

        warm_up = self._warm_up_left = warm_up_steps(self._step_ns)
        on_device = self._on_device = device.is_in_use()

        def schedule(number: int) -> Any:
            # On a device, the warm-up is recorded as well: a profiler that stops within its
            # warm-up has recorded nothing; see `launch_nothing`.
            warms_up = number < warm_up and not on_device
            return ProfilerAction.WARMUP if warms_up else ProfilerAction.RECORD

        activities = [ProfilerActivity.CPU]
        more: dict[str, Any] = {"record_shapes": on_device or self._step_ns >= _SHAPES_NS}
        if on_device:
            activities.append(ProfilerActivity.CUDA)
            more |= recording_waits()
        self._budget = None
        self._kineto.start(activities=activities, schedule=schedule, **more)
        self.running = True
        if not warm_up:
            self._begin()

    def _begin(self) -> None:
        """The first kept step begins."""
        self._first_step = self._step
        self._start_ns = now_ns()
        self._budget = Budget(self._start_ns)
        self._walk.begin()

    def _advance(self) -> None:
        """Pass a step boundary to the profiler, but not in a backward pass, where that crashes.

        A gradient hook may step an optimizer there.
        """
        if graph_task() >= 0:
            return
        self._kineto.stop_request_thread()
        if self._budget is None:
            with self._forks.switching:
                self._kineto.step()
            self._warm_up_left -= 1
            if not self._warm_up_left:
                self._begin()
            return
        self._walk.end()
        self._end_ns = now_ns()
        self._last_step = self._step - 1
        if self._budget.spend(self._end_ns):
            self._kineto.step()
        else:
            self._close(goes_on=True)

    def _close(self, *, goes_on: bool) -> None:
        """Stop the profiler and write its trace; see `TracedWindow`."""
        self.running = False
        profiler = self._kineto.stop(detach=goes_on and self._on_device)
        about = self._about("torch-profiler")

        def write(folder: Path) -> None:
            has_kernels = write_trace(profiler, folder)
            if self._on_device and not has_kernels and device.holds_tensors():
                about["kernels_missing"] = True

        self._walk.end()
        self._walk.report()
        self._keep(about, write)
        if "kernels_missing" in about:
            self._recorder.message("warning", "kernels-missing", _NO_KERNELS)

    def _discard(self) -> None:
        """Stop the profiler if it runs, and keep nothing; never raises."""
        self._walk.end()
        if self._kineto.profiler is not None and self._on_device:
            device.launch_nothing()
        self.running = False
        self._kineto.discard(detach=self._on_device)

    def _fail(self, error: Exception) -> None:
        """Drop the window; try once more if the training itself may have taken the memory."""
        if isinstance(error, MemoryGrewError):
            self._grew += 1
            if self._grew < _MOST_GROWN:
                self._discard()
                self.is_due = True
                return
        super()._fail(error)

    def _close_before_fork(self) -> bool:
        """Close the window, which its own thread can do only, and not in a backward pass.

        In any other fork it stays open, and the child closes its copy.
        """
        self._kineto.stop_request_thread()
        if threading.get_ident() != self._home or graph_task() >= 0:
            return False
        return super()._close_before_fork()

    def finish(self) -> None:
        """No further step comes: keep the window if it holds a complete step; never raises."""
        self._began_ns = 0
        super().finish()
        self._walk.finish()
