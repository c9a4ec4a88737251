"""A window of profiled steps: when it opens and how it ends, whichever profiler fills it.

::

    due --> open --> kept        it held a complete step, and its trace was written
     ^       |---> cut short     the loop has paused before: due again, a few times
     |-------|---> dropped       the training forks, or profiles itself: due again, some steps later
             '---> failed        no further one is tried

The first window is due from the beginning, others when the step time has changed for good, or when
one was requested from outside.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from stepwhy.record.core.forks import Forks
from stepwhy.record.core.process import lifetime
from stepwhy.record.windows.common_windows import RequestedStep, may_open
from stepwhy.record.windows.profiler_conflicts import ProfilerConflict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from stepwhy.record.core.recorder import Recorder

# One when the loop is warm, and one each for the first lasting changes of the step time.
_MOST_WINDOWS = 3
# A loop that is paused after every few steps never completes a window.
_MOST_CUT_SHORT = 3


class ProfilerInUseError(Exception):
    """Another profiler runs; two cannot."""


class WindowTooLargeError(Exception):
    """A window exceeds a limit; the message completes a sentence about the window."""


class TracedWindow:
    """Profiled sequences of steps, one at a time.

    A subclass plugs in a profiler, and calls `forget` once it is complete.

    Args:
        recorder: Writes the windows.

    Attributes:
        profiler_name: Public name of the profiler.
        is_due: Whether the next window waits to be opened.
        kept: Number of windows written.
        running: Whether the profiler runs.
        touched: Whether the profiler started, ran, stopped or exported in the current step, so
            that its time is not the training's own.
    """

    profiler_name: str

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._conflict = ProfilerConflict(recorder)
        self._forks = Forks(recorder, self._close_before_fork)
        self._requested = RequestedStep()
        lifetime.on_end(self.finish)

    def forget(self) -> None:
        """Start over, as in a process without a window (after a fork)."""
        self.touched = self.running = False
        self.is_due = True
        self.kept = self._opened = self._cut_short = self._step = self._thread = 0
        self._most = _MOST_WINDOWS
        self._conflict.forget()
        self._forks.forget()
        self._requested.forget()
        self._first_step = self._last_step = -1
        self._start_ns = self._end_ns = 0

    def _is_busy(self) -> bool:
        """Whether the training runs a profiler of its own."""
        raise NotImplementedError

    def _start(self) -> None:
        """Start the profiler, and set `running`; the step that begins may be its warm-up.

        Raises:
            ProfilerInUseError: Another one runs.
            WindowTooLargeError: A step takes too long.
        """
        raise NotImplementedError

    def _advance(self) -> None:
        """A step of the window has ended; after the last one, close.

        Raises:
            WindowTooLargeError: The window exceeds a limit.
        """
        raise NotImplementedError

    def _close(self, *, goes_on: bool) -> None:
        """Stop the profiler, and write its trace, which has a complete step.

        Args:
            goes_on: Whether further steps follow.

        Raises:
            WindowTooLargeError: The trace exceeds a limit.
        """
        raise NotImplementedError

    def _discard(self) -> None:
        """Stop the profiler if it runs, and keep nothing; never raises."""
        raise NotImplementedError

    def next_step(self, step: int, *, start: bool) -> None:
        """A step begins: open, continue or close the window; never raises.

        Args:
            step: Number of the step that begins: its line in the log, from 0.
            start: Whether the loop is ready for a window.
        """
        self.touched = self.running
        self._step = step
        try:
            if self.running:
                self._advance()
            elif start and self.is_due and self._conflict.may_open(step) and self._opens_at(step):
                self._try_to_open()
        except Exception as error:
            self._fail(error)

    def _opens_at(self, step: int) -> bool:
        """Whether it is the requested step; without a request, one at which all ranks open."""
        return self._requested.may_open(step) if self._requested.is_open else may_open(step)

    def _try_to_open(self) -> None:
        """Open, unless the training profiles itself or is about to fork."""
        if self._is_busy():
            self._conflict.report(self.profiler_name, self._step)
        elif not self._forks.leave_room:
            self._forks.report(self._step)
            if self._forks.leave_none:
                self._conflict.postpone(self._step)
        else:
            self.touched = True
            self._open()

    def _open(self) -> None:
        """Start the profiler."""
        self._thread = threading.get_ident()
        self._first_step = self._last_step = -1
        self._start_ns = self._end_ns = 0
        try:
            self._start()
        except ProfilerInUseError:
            self._conflict.report(self.profiler_name, self._step)
            self._conflict.postpone(self._step)
            return
        self.is_due = False
        self._opened += 1
        self._requested.met()

    def reopen(self) -> None:
        """Allow one more window, within a limit: the step time has changed for good.

        A window that is open shows the change.
        """
        if not self.running and self._opened < self._most:
            self.is_due = True

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
        if self.running or not self._requested.accept(step):
            return False
        self._most += 1
        self.is_due = True
        return True

    def begin_step(self) -> None:
        """The work of the step begins."""

    def end_last_step(self, time_ns: int) -> None:
        """No further step comes, and the last one ended at this time; never raises."""

    def check_age(self) -> None:
        """Close a window that has been open for long; the next step may be far away."""

    def finish(self) -> None:
        """No further step comes: keep the window if it holds a complete step; never raises."""
        self._end(goes_on=False)

    def pause(self) -> None:
        """No step comes for a while: keep the window if it holds a complete step; never raises."""
        self._end(goes_on=True)

    def _end(self, *, goes_on: bool) -> None:
        """End an open window here: keep it if it holds a complete step, else try again later."""
        if not self.running:
            return
        if not self._end_ns:
            self._drop()
            self._cut_short += 1
            self.is_due = self._cut_short < _MOST_CUT_SHORT
            return
        try:
            self._close(goes_on=goes_on)
        except Exception as error:
            self._fail(error)

    def _keep(self, about: Mapping[str, Any], fill: Callable[[Path], None]) -> None:
        """Write the window.

        Args:
            about: Members of `window.json` beside those that all windows of steps have.
            fill: Writes the profiler's own files into the given folder.
        """
        self._recorder.window(about, fill)
        self.kept += 1

    def _about(self, kind: str) -> dict[str, Any]:
        """The members of `window.json` that all windows of steps have.

        Args:
            kind: Name of the profiler in the format.
        """
        return {
            "kind": kind,
            "first_step": self._first_step,
            "last_step": self._last_step,
            "start_ns": self._start_ns,
            "end_ns": self._end_ns,
        }

    def abandon(self) -> None:
        """Stop the profiler, keep nothing, and open no other window; never raises."""
        self.is_due = False
        self._discard()

    def _drop(self) -> None:
        """Drop the open window; it does not count."""
        self._discard()
        self._opened -= 1
        self.is_due = True

    def _fail(self, error: Exception) -> None:
        """Drop the window; unless it was only too large, try no other: steps are still logged."""
        self.abandon()
        if isinstance(error, WindowTooLargeError):
            self._requested.met()
            text = f"a traced window of steps was not kept: {error}"
            self._recorder.message("warning", "window-too-large", text)
        else:
            self._most = 0
            self._requested.refuse()
            self._recorder.window_failed(error)

    def yield_profiler(self) -> None:
        """End an open window here: another profiler is about to start; never raises."""
        if self.running:
            self._conflict.report(self.profiler_name, self._step)
            self._drop()
            self._conflict.postpone(self._step)

    def _close_before_fork(self) -> bool:
        """Keep the window if it holds a complete step, else try again later.

        What another thread forks keeps nothing: the loop may be writing its log.
        """
        if self.running and self._end_ns and threading.get_ident() == self._thread:
            self.pause()
        elif self.running:
            self._drop()
            if self._forks.dropped(self._step):
                self._conflict.postpone(self._step)
        return True
