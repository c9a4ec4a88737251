"""A window of steps under the profiler that TensorFlow and JAX share (XPlane).

Source of the file's layout: tsl/profiler/protobuf/xplane.proto, `XSpace`.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from stepwhy.capture.clock import now_ns
from stepwhy.capture.process import lifetime
from stepwhy.capture.profiler_conflicts import GiveWay

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepwhy.capture.recorder import Recorder

TRACE_FILE = "trace.xplane.pb"
# The first step pays for the profiler's start (on a GPU, half a second) and is not marked.
_WARMUP_STEPS = 1
# Enough to see repetition.
_ACTIVE_STEPS = 4
# Long steps fill the profiler's buffers; what it drops then is not the oldest.
_LONGEST_NS = 20_000_000_000
# The profiler keeps what it sees in memory until it stops: it must not push the training out.
_MOST_GROWTH_BYTES = 1 << 30
# Larger ones take minutes to read.
_MOST_FILE_BYTES = 256 << 20
# One when the loop is warm, and one each for the first lasting changes of the step time.
_MOST_WINDOWS = 3
_HOSTNAMES = 4  # number of the repeated field in XSpace


class ProfilerInUseError(Exception):
    """Another profiler runs; two cannot."""


class StepWindow(Protocol):
    """What a loop does with its window, whichever profiler it is."""

    @property
    def touched(self) -> bool:
        """Whether the profiler was at work in the step under way."""

    @property
    def running(self) -> bool:
        """Whether the profiler runs."""

    def forget(self) -> None:
        """Begin as in a process without a window (after a fork)."""

    def next_step(self, step: int, *, start: bool) -> None:
        """A step begins: open the window, go on, or close it."""

    def begin_step(self) -> None:
        """The work of the step begins."""

    def check_age(self) -> None:
        """No step may come for a while: close a window that has been open for long."""

    def finish(self) -> None:
        """No step comes: close the window."""

    def reopen(self) -> None:
        """The step time has changed for good: one more window may open."""

    def abandon(self) -> None:
        """Stop the profiler and keep nothing."""


class Profiler(Protocol):
    """A framework's profiler.

    Attributes:
        name: What its users call it.
    """

    name: str

    def busy(self) -> bool:
        """Whether the training runs a profiler of its own."""

    def start(self, give_way: Callable[[], None]) -> None:
        """Start, and call `give_way` when the training is about to start one of its own.

        Raises:
            ProfilerInUseError: Another profiler runs.
        """

    def stop(self) -> bytes:
        """Stop; a serialised `XSpace`."""

    def discard(self) -> None:
        """Stop and keep nothing."""

    def mark(self, step: int) -> Callable[[], None]:
        """Begin the mark of a step in the trace; what is returned ends it."""


class XPlaneWindow:
    """A profiled stretch of steps; it opens when it is told to, and again after `reopen`.

    Args:
        recorder: Where the window goes.
        profiler: The framework's profiler.

    Attributes:
        touched: Whether the profiler was started, running or stopped in the step under way: its
            time is not the training's own.
    """

    def __init__(self, recorder: Recorder, profiler: Profiler) -> None:
        self._recorder = recorder
        self._profiler = profiler
        self._others = GiveWay(recorder)
        self.forget()
        lifetime.on_end(self.finish)

    def forget(self) -> None:
        """Begin as in a process without a window (after a fork)."""
        self.touched = False
        self._open = False
        self._done = False
        self._windows_left = _MOST_WINDOWS
        self._step = 0
        self._others.forget()
        self._begin_anew()

    def _begin_anew(self) -> None:
        """Nothing of the next window has been seen yet."""
        self._end_mark: Callable[[], None] | None = None
        self._steps_left = 0
        self._opened_ns = 0
        self._opened_bytes: int | None = None
        self._first_step = self._last_step = -1
        self._start_ns = self._end_ns = 0

    def next_step(self, step: int, *, start: bool) -> None:
        """A step begins: open the window, go on, or close it; never raises.

        Args:
            step: Number of the step that begins: the line that it will have in the log, from 0.
            start: Whether the loop is ready for a window.
        """
        self.touched = self._open
        self._step = step
        try:
            if self._open:
                self._advance()
            elif start and not self._done and self._others.may_open(step):
                self._try_to_start()
        except Exception as error:
            self._fail(error)

    def _try_to_start(self) -> None:
        """Start, unless the training's own profiler runs."""
        if self._profiler.busy():
            self._others.note(self._profiler.name, self._step)
            return
        self.touched = True
        try:
            self._start()
        except ProfilerInUseError:
            self._others.gave_way(self._profiler.name, self._step)

    def _start(self) -> None:
        """Start the profiler; the step that begins is its warm-up.

        Raises:
            ProfilerInUseError: Another one runs.
        """
        self._begin_anew()
        self._profiler.start(self.give_way)
        self._open = True
        self._windows_left -= 1
        self._opened_ns = now_ns()
        self._opened_bytes = resident_bytes()
        self._steps_left = _WARMUP_STEPS + _ACTIVE_STEPS

    def _advance(self) -> None:
        """A step of the window has ended; after the last one, close."""
        self._steps_left -= 1
        end_mark, self._end_mark = self._end_mark, None
        if end_mark is not None:
            end_mark()
            self._last_step, self._end_ns = self._step - 1, now_ns()
        if not self._steps_left or self._overdue() or self._outgrown():
            self._close()

    def begin_step(self) -> None:
        """The work of the step begins: mark it, unless it is the warm-up; never raises."""
        if not self._open or self._steps_left > _ACTIVE_STEPS or self._end_mark is not None:
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

    def check_age(self) -> None:
        """No step may come for a while: close a window that has been open for long."""
        if self._open and self._overdue():
            self.finish()

    def _overdue(self) -> bool:
        """Whether the window has been open for as long as it may."""
        return now_ns() - self._opened_ns > _LONGEST_NS

    def _outgrown(self) -> bool:
        """Whether the process has grown by as much as it may since the window opened."""
        before, after = self._opened_bytes, resident_bytes()
        return before is not None and after is not None and after - before > _MOST_GROWTH_BYTES

    def reopen(self) -> None:
        """The step time has changed for good: one more window may open, if few have."""
        if self._windows_left > 0:
            self._done = False

    def finish(self) -> None:
        """No step comes: keep the window when it holds a complete one; never raises."""
        if not self._open:
            return
        try:
            self._close()
        except Exception as error:
            self._fail(error)

    def _close(self) -> None:
        """Stop the profiler and write what it saw, if that is a complete step."""
        self._open, self._done = False, True
        if not self._end_ns:
            self._profiler.discard()
            self.reopen()
            return
        data = without_host_names(self._profiler.stop())
        # A mark that ends after the profiler leaves nothing in the trace: its step is not complete.
        self._end_mark = None
        if len(data) > _MOST_FILE_BYTES:
            self._say_too_large(len(data))
            return
        about = {
            "kind": "xplane",
            "first_step": self._first_step,
            "last_step": self._last_step,
            "start_ns": self._start_ns,
            "end_ns": self._end_ns,
        }

        def export(folder: Path) -> None:
            (folder / TRACE_FILE).write_bytes(data)

        self._recorder.window(about, export)

    def abandon(self) -> None:
        """Stop the profiler and keep nothing; never raises."""
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
        """The window is lost, and no other is tried; the steps go on."""
        self.abandon()
        self._windows_left = 0
        self._recorder.window_failed(error)

    def give_way(self) -> None:
        """Another profiler is about to start: two cannot run, so an open window ends here."""
        if self._open:
            self.abandon()
            self._windows_left += 1
            self._done = False
            self._others.gave_way(self._profiler.name, self._step)

    def _say_too_large(self, size: int) -> None:
        """Say why there is no window."""
        self._recorder.message(
            "warning",
            "window-too-large",
            f"a traced window of {size >> 20} MiB was dropped: at most "
            f"{_MOST_FILE_BYTES >> 20} MiB are kept",
        )


def resident_bytes() -> int | None:
    """Resident memory of this process; None where the system does not tell."""
    try:
        pages = Path("/proc/self/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def announce(module: Any, name: str, give_way: Callable[[], None]) -> Callable[[], None]:
    """Have `give_way` called before a class is instantiated through its module.

    Args:
        module: Where the class is looked up.
        name: Its name there.
        give_way: Called before each instance is made.

    Returns:
        What puts the class back.
    """
    original = getattr(module, name)

    @functools.wraps(original, updated=())
    def make(*args: Any, **kwargs: Any) -> Any:
        give_way()
        return original(*args, **kwargs)

    setattr(module, name, make)
    return functools.partial(setattr, module, name, original)


def without_host_names(data: bytes) -> bytes:
    """A serialised `XSpace` without the names of the machines it was recorded on.

    Args:
        data: Its fields, each a length-delimited one; anything else is left as it is.
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
