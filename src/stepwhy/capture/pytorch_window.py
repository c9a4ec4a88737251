"""A window of steps under `torch.profiler`, from its opening to its file."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from typing import TYPE_CHECKING

from stepwhy.capture import lifetime
from stepwhy.capture.clock import now_ns

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any

    from stepwhy.capture.recorder import Recorder

TRACE_FILE = "trace.json.gz"
# The profiler's first step pays for its own start-up and is not kept.
_WARMUP_STEPS = 1
# Enough to see repetition; a step can weigh a megabyte in the trace.
_ACTIVE_STEPS = 4
_LOG_LEVEL_VARIABLE = "KINETO_LOG_LEVEL"


class ProfilerWindow:
    """One profiled stretch of steps; it opens once, when it is told to.

    Args:
        recorder: Where the window goes.

    Attributes:
        touched: Whether the profiler was started, running, stopped or exported in the step that
            is under way: its time is not the training's own.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.forget()
        lifetime.on_end(self._finish_at_exit)

    def forget(self) -> None:
        """Begin as in a process without a window (after a fork)."""
        self.touched = False
        self._profiler: Any = None
        self._done = False
        self._steps_left = 0
        self._first_step = 0
        self._last_step = 0
        self._start_ns = 0
        self._end_ns = 0

    def next_step(self, step: int, *, start: bool) -> None:
        """A step begins: open the window, go on, or close it.

        Args:
            step: Number of the step that begins: the line that it will have in the log, from 0.
            start: Whether the loop is ready for a window.
        """
        self.touched = self._profiler is not None
        try:
            if self._profiler is not None:
                self._advance(step)
            elif start and not self._done and not _other_profiler_active():
                self.touched = True
                self._open()
        except Exception as error:
            self.abandon()
            self._recorder.window_failed(error)

    def _open(self) -> None:
        """Start the profiler's warm-up."""
        from torch import cuda
        from torch.profiler import ProfilerAction, ProfilerActivity, profile

        def schedule(step: int) -> Any:
            return ProfilerAction.WARMUP if step < _WARMUP_STEPS else ProfilerAction.RECORD

        activities = [ProfilerActivity.CPU]
        if cuda.is_available():
            activities.append(ProfilerActivity.CUDA)
        _watch_profilers(self)
        self._steps_left = _WARMUP_STEPS + _ACTIVE_STEPS
        profiler = profile(activities=activities, schedule=schedule)
        with _quiet():
            profiler.start()
        self._profiler = profiler

    def _advance(self, step: int) -> None:
        """Pass a step boundary on; after the last step, close."""
        self._steps_left -= 1
        self._end_ns = now_ns()
        self._last_step = step - 1
        if self._steps_left == 0:
            self._close()
            return
        self._profiler.step()
        if self._steps_left == _ACTIVE_STEPS:
            self._first_step = step
            self._start_ns = self._end_ns

    def _close(self) -> None:
        """Stop the profiler and write what it saw."""
        profiler, self._profiler, self._done = self._profiler, None, True
        profiler.stop()
        about = {
            "kind": "torch-profiler",
            "first_step": self._first_step,
            "last_step": self._last_step,
            "start_ns": self._start_ns,
            "end_ns": self._end_ns,
        }

        def export(folder: Path) -> None:
            profiler.export_chrome_trace(str(folder / TRACE_FILE))

        self._recorder.window(about, export)

    def abandon(self) -> None:
        """Stop the profiler and keep nothing; never raises."""
        profiler, self._profiler, self._done = self._profiler, None, True
        if profiler is None:
            return
        try:
            profiler.stop()
        except Exception:
            return

    def give_way(self) -> None:
        """Another profiler is about to start: two cannot run, so an open window ends here."""
        if self._profiler is None:
            return
        self.abandon()
        self._recorder.message(
            "warning",
            "profiler-in-use",
            "the training started a profiler of its own, so no window of steps was kept",
        )

    def _finish_at_exit(self) -> None:
        """The script ends inside the window: keep it when it holds a complete step."""
        if self._profiler is None:
            return
        try:
            if self._start_ns and self._start_ns < self._end_ns:
                self._close()
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


def _other_profiler_active() -> bool:
    """Whether the user's own profiler runs."""
    from torch import autograd

    return bool(autograd._profiler_enabled())  # type: ignore[attr-defined]


@functools.cache
def _watch_profilers(window: ProfilerWindow) -> None:
    """End the window before any other profiler starts: starting a second one is an error."""
    base = sys.modules["torch.autograd.profiler"].profile
    prepare = base._prepare_trace

    @functools.wraps(prepare)
    def prepare_alone(self: Any) -> Any:
        window.give_way()
        return prepare(self)

    base._prepare_trace = prepare_alone
