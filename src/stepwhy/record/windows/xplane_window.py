"""A window of steps under the profiler that TensorFlow and JAX share (XPlane).

Source of the file's layout: tsl/profiler/protobuf/xplane.proto, `XSpace`.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from typing import TYPE_CHECKING, Any, Protocol

from stepwhy.record.core.clock import now_ns
from stepwhy.record.core.forks import Forks
from stepwhy.record.core.process import lifetime
from stepwhy.record.steps.meters import resident_bytes
from stepwhy.record.windows.common_windows import RequestedStep, may_open
from stepwhy.record.windows.profiler_conflicts import ProfilerConflict

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepwhy.record.core.recorder import Recorder

TRACE_FILE = "trace.xplane.pb"
# Enough to see repetition. The step before them is not marked: the profiler's start falls into it
# (half a second on a GPU).
_FEWEST_STEPS = 4
# If the host runs ahead, a window also covers all steps from one wait for the device to the next,
# such as the 100 between two prints of the loss, within these limits.
_MOST_STEPS = 128
_MOST_EXTRA_BYTES = 64 << 20
# What the profiler records in a shorter time takes less: the arrays of the program itself grow, as
# a host that runs ahead allocates those of many steps.
_SHORTEST_NS = 1_000_000_000
# Long steps fill the profiler's buffers, and it does not drop the oldest records first.
_LONGEST_NS = 20_000_000_000
# The profiler keeps its records in memory until it stops, at the training's expense.
_MOST_GROWTH_BYTES = 1 << 30
# Larger ones take minutes to read.
_MOST_FILE_BYTES = 256 << 20
# One when the loop is warm, and one each for the first lasting changes of the step time.
_MOST_WINDOWS = 3
_HOSTNAMES = 4  # number of the repeated field in XSpace


class ProfilerInUseError(Exception):
    """Another profiler runs; two cannot."""


class Profiler(Protocol):
    """A framework's profiler.

    Attributes:
        name: Its public name.
        annotated: Whether the training marks its steps itself.
    """

    name: str
    annotated: bool

    def busy(self) -> bool:
        """Whether the training runs a profiler of its own."""

    def start(self, on_conflict: Callable[[], None]) -> None:
        """Start, and call `on_conflict` before the training starts a profiler of its own.

        Raises:
            ProfilerInUseError: Another profiler runs.
        """

    def stop(self) -> bytes:
        """Stop; a serialised `XSpace`."""

    def discard(self) -> None:
        """Stop and keep nothing."""

    def write_beside(self, folder: Path) -> None:
        """Write what the trace lacks into the folder of the window."""

    def mark(self, step: int) -> Callable[[], None]:
        """Begin the mark of a step in the trace; the returned function ends it."""


class XPlaneWindow:
    """A profiled sequence of steps; opens on request, and again after `reopen`.

    Args:
        recorder: Writes the window.
        profiler: The framework's profiler.
        ahead: Returns whether the device still works on what earlier steps launched.

    Attributes:
        touched: Whether the profiler started, ran or stopped in the current step, so that its
            time is not the training's own.
        kept: Number of windows written.
    """

    def __init__(
        self, recorder: Recorder, profiler: Profiler, ahead: Callable[[], bool] = lambda: False
    ) -> None:
        self._recorder = recorder
        self._profiler = profiler
        self._ahead = ahead
        self._conflict = ProfilerConflict(recorder)
        self._forks = Forks(recorder, self._close_before_fork)
        self._requested = RequestedStep()
        self.forget()
        lifetime.on_end(self.finish)

    def forget(self) -> None:
        """Start over, as in a process without a window (after a fork)."""
        self.touched = False
        self.kept = 0
        self._open = False
        self._done = False
        self._windows_left = _MOST_WINDOWS
        self._step = self._begun = self._thread = 0
        self._conflict.forget()
        self._forks.forget()
        self._requested.forget()
        self._reset_window()

    def _reset_window(self) -> None:
        """Clear what is known of the last window."""
        self._end_mark: Callable[[], None] | None = None
        self._warm = False
        self._steps = 0
        self._opened_ns = 0
        self._opened_bytes = 0
        self._first_step = self._last_step = -1
        self._start_ns = self._end_ns = 0
        # The first marked step at whose start the device had finished all earlier work.
        self._idle_step = self._idle_ns = 0
        self._ran_ahead = self._drained = False

    def next_step(self, step: int, *, start: bool) -> None:
        """A step begins: open, continue or close the window; never raises.

        Args:
            step: Number of the step that begins: its line in the log, from 0.
            start: Whether the loop is ready for a window.
        """
        self.touched = self._open
        self._step = step
        self._begun += 1
        self._forks.next_step(self._begun)
        try:
            if self._open:
                self._advance()
            elif (
                start and not self._done and self._conflict.may_open(step) and self._opens_at(step)
            ):
                self._try_to_start()
        except Exception as error:
            self._fail(error)

    def _opens_at(self, step: int) -> bool:
        """Whether it is the requested step; without a request, one at which all ranks open."""
        return self._requested.may_open(step) if self._requested.is_open else may_open(step)

    def _try_to_start(self) -> None:
        """Start, unless the training profiles itself or is about to fork."""
        if self._profiler.busy():
            self._conflict.report(self._profiler.name, self._step)
            return
        if not self._forks.leave_room:
            self._forks.report(self._step)
            return
        self.touched = True
        try:
            self._start()
        except ProfilerInUseError:
            self._conflict.report(self._profiler.name, self._step)
            self._conflict.postpone(self._step)

    def _start(self) -> None:
        """Start the profiler; the step that begins is its warm-up.

        Raises:
            ProfilerInUseError: Another one runs.
        """
        self._reset_window()
        self._thread = threading.get_ident()
        with self._forks.switching:
            self._profiler.start(self.yield_profiler)
            self._open = True
        self._requested.met()
        self._windows_left -= 1
        self._opened_ns = now_ns()
        self._opened_bytes = resident_bytes()

    def _advance(self) -> None:
        """End a step of the window; after the last one, close."""
        end_mark, self._end_mark = self._end_mark, None
        if end_mark is not None:
            end_mark()
            self._steps += 1
            self._last_step, self._end_ns = self._step - 1, now_ns()
        self._warm = True
        idle = not self._ahead()
        self._ran_ahead |= not idle
        if idle and self._idle_ns and self._step - self._idle_step >= _FEWEST_STEPS:
            self._first_step, self._start_ns = self._idle_step, self._idle_ns
            self._close()
        elif self._overdue() or self._outgrown():
            self._close()
        elif idle and not self._idle_ns:
            self._idle_step, self._idle_ns = self._step, now_ns()

    def begin_step(self) -> None:
        """The work of the step begins: mark it unless it is the warm-up; never raises."""
        if not self._open or not self._warm or self._end_mark is not None:
            return
        try:
            if not self._start_ns:
                self._first_step, self._start_ns = self._step, now_ns()
            self._end_mark = self._profiler.mark(self._step)
        except Exception as error:
            self._fail(error)

    @property
    def running(self) -> bool:
        """Whether the profiler runs."""
        return self._open

    def end_last_step(self, time_ns: int) -> None:
        """No further step comes, and the last one ended here; never raises."""
        end_mark, self._end_mark = self._end_mark, None
        if not self._open or end_mark is None:
            return
        try:
            end_mark()
        except Exception as error:
            self._fail(error)
            return
        self._steps += 1
        self._last_step, self._end_ns, self._drained = self._step, time_ns, True

    def check_age(self) -> None:
        """Close a window that has been open for long; the next step may be far away."""
        if self._open and self._overdue():
            self.finish()

    def _overdue(self) -> bool:
        """Whether the window has been open for the longest permitted time."""
        return now_ns() - self._opened_ns > _LONGEST_NS

    def _outgrown(self) -> bool:
        """Whether the window holds more than permitted, or the process has grown by more."""
        age_ns = now_ns() - self._opened_ns
        extra = self._steps >= _FEWEST_STEPS and age_ns > _SHORTEST_NS
        most = _MOST_EXTRA_BYTES if extra else _MOST_GROWTH_BYTES
        return self._steps >= _MOST_STEPS or resident_bytes() - self._opened_bytes > most

    def reopen(self) -> None:
        """Allow one more window, within a limit: the step time has changed for good."""
        if self._windows_left > 0:
            self._done = False

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
        if self._open or not self._requested.accept(step):
            return False
        self._windows_left += 1
        self._done = False
        return True

    def finish(self) -> None:
        """No further step comes: keep the window if it holds a complete step; never raises."""
        if not self._open:
            return
        try:
            self._close()
        except Exception as error:
            self._fail(error)

    def _close(self) -> None:
        """Stop the profiler, and write its trace if that holds a complete step."""
        if not self._end_ns:
            self.abandon()
            self.reopen()
            return
        with self._forks.switching:
            if not self._open:
                return  # abandoned by a fork of another thread
            self._open, self._done = False, True
            data = without_host_names(self._profiler.stop())
        # A mark that ends after the profiler is missing from the trace: its step is incomplete.
        self._end_mark = None
        if len(data) > _MOST_FILE_BYTES:
            self._report_too_large(len(data))
            return
        about = {
            "kind": "xplane",
            "first_step": self._first_step,
            "last_step": self._last_step,
            "start_ns": self._start_ns,
            "end_ns": self._end_ns,
            "ran_ahead": self._ran_ahead,
            "drained": self._drained,
            "annotated": self._profiler.annotated,
        }

        def export(folder: Path) -> None:
            (folder / TRACE_FILE).write_bytes(data)
            with contextlib.suppress(Exception):  # the trace is useful without
                self._profiler.write_beside(folder)

        self._recorder.window(about, export)
        self.kept += 1

    def abandon(self) -> None:
        """Stop the profiler and keep nothing; never raises."""
        with self._forks.switching:
            was_open, self._open, self._done = self._open, False, True
            if not was_open:
                return
            try:
                self._profiler.discard()
            except Exception:
                return
            finally:
                self._end_mark = None

    def _fail(self, error: BaseException) -> None:
        """Drop the window, and try no other; steps are still logged."""
        self.abandon()
        self._windows_left = 0
        self._requested.refuse()
        self._recorder.window_failed(error)

    def yield_profiler(self) -> None:
        """End an open window here: another profiler is about to start."""
        if self._open:
            self._conflict.report(self._profiler.name, self._step)
            self._drop()
            self._conflict.postpone(self._step)

    def _close_before_fork(self) -> bool:
        """Keep the window if it holds a complete step, else try again later.

        What another thread forks keeps nothing: the loop may be writing its log.
        """
        if self._open and self._end_ns and threading.get_ident() == self._thread:
            self.finish()
        elif self._open:
            self._drop()
            if self._forks.dropped(self._step):
                self._conflict.postpone(self._step)
        return True

    def _drop(self) -> None:
        """Drop the open window; it does not count."""
        self.abandon()
        self._windows_left += 1
        self._done = False

    def _report_too_large(self, size: int) -> None:
        """Report why there is no window."""
        self._recorder.message(
            "warning",
            "window-too-large",
            f"a traced window of {size >> 20} MiB was dropped: at most "
            f"{_MOST_FILE_BYTES >> 20} MiB are kept",
        )


def call_before_instances(
    module: Any, name: str, callback: Callable[[], None]
) -> Callable[[], None]:
    """Call a function before each instantiation of a class through its module.

    Args:
        module: The module that code looks the class up in.
        name: Name of the class.
        callback: Called before each instance is made.

    Returns:
        A function that restores the class.
    """
    original = getattr(module, name)

    @functools.wraps(original, updated=())
    def make(*args: Any, **kwargs: Any) -> Any:
        callback()
        return original(*args, **kwargs)

    setattr(module, name, make)
    return functools.partial(setattr, module, name, original)


def without_host_names(data: bytes) -> bytes:
    """Remove the names of the recording machines from a serialised `XSpace`.

    Args:
        data: The message; returned unchanged if any field is not length-delimited.
    """
    kept, position = [], 0
    while position < len(data):
        start = position
        tag, position = _varint(data, position)
        if tag & 7 != 2:
            return data
        length, position = _varint(data, position)
        position += length
        if tag >> 3 != _HOSTNAMES:
            kept.append(data[start:position])
    return b"".join(kept)


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """The number at a position, and the position after it."""
    value = shift = 0
    while True:
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return value, position
