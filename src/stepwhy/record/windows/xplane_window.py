"""A window of steps under the profiler that TensorFlow and JAX share (XPlane).

Source of the file's layout: tsl/profiler/protobuf/xplane.proto, `XSpace`.
"""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any, Protocol

from stepwhy.record.core.clock import now_ns
from stepwhy.record.steps.meters import resident_bytes
from stepwhy.record.windows.traced_window import TracedWindow, WindowTooLargeError

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
_HOSTNAMES = 4  # number of the repeated field in XSpace


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


class XPlaneWindow(TracedWindow):
    """Steps under a profiler to which each is marked; a window may grow until the device waits.

    Args:
        recorder: Writes the windows.
        profiler: The framework's profiler.
        ahead: Returns whether the device still works on what earlier steps launched.
    """

    def __init__(
        self, recorder: Recorder, profiler: Profiler, ahead: Callable[[], bool] = lambda: False
    ) -> None:
        super().__init__(recorder)
        self.profiler_name = profiler.name
        self._profiler = profiler
        self._ahead = ahead
        self.forget()

    def forget(self) -> None:
        """Start over, as in a process without a window (after a fork)."""
        super().forget()
        self._begun = 0
        self._reset()

    def _reset(self) -> None:
        """Clear what is known of the last window."""
        self._end_mark: Callable[[], None] | None = None
        self._warm = False
        self._steps = 0
        self._opened_ns = 0
        self._opened_bytes = 0
        # The first marked step at whose start the device had finished all earlier work.
        self._idle_step = self._idle_ns = 0
        self._ran_ahead = self._drained = False

    def next_step(self, step: int, *, start: bool) -> None:
        """A step begins: open, continue or close the window; never raises.

        Args:
            step: Number of the step that begins: its line in the log, from 0.
            start: Whether the loop is ready for a window.
        """
        self._begun += 1
        self._forks.next_step(self._begun)
        super().next_step(step, start=start)

    def _is_busy(self) -> bool:
        """Whether the training runs a profiler of its own."""
        return self._profiler.busy()

    def _start(self) -> None:
        """Start the profiler; the step that begins is its warm-up. See `TracedWindow`."""
        self._reset()
        with self._forks.switching:
            self._profiler.start(self.yield_profiler)
            self.running = True
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
            self.pause()
        elif self._overdue() or self._outgrown():
            self.pause()
        elif idle and not self._idle_ns:
            self._idle_step, self._idle_ns = self._step, now_ns()

    def begin_step(self) -> None:
        """The work of the step begins: mark it unless it is the warm-up; never raises."""
        if not self.running or not self._warm or self._end_mark is not None:
            return
        try:
            if not self._start_ns:
                self._first_step, self._start_ns = self._step, now_ns()
            self._end_mark = self._profiler.mark(self._step)
        except Exception as error:
            self._fail(error)

    def end_last_step(self, time_ns: int) -> None:
        """No further step comes, and the last one ended at this time; never raises."""
        end_mark, self._end_mark = self._end_mark, None
        if not self.running or end_mark is None:
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
        if self.running and self._overdue():
            self.pause()

    def _overdue(self) -> bool:
        """Whether the window has been open for the longest permitted time."""
        return now_ns() - self._opened_ns > _LONGEST_NS

    def _outgrown(self) -> bool:
        """Whether the window holds more than permitted, or the process has grown by more."""
        age_ns = now_ns() - self._opened_ns
        extra = self._steps >= _FEWEST_STEPS and age_ns > _SHORTEST_NS
        most = _MOST_EXTRA_BYTES if extra else _MOST_GROWTH_BYTES
        return self._steps >= _MOST_STEPS or resident_bytes() - self._opened_bytes > most

    def _close(self, *, goes_on: bool) -> None:  # noqa: ARG002 - the profiler stops in one way
        """Stop the profiler, and write its trace; see `TracedWindow`."""
        with self._forks.switching:
            if not self.running:
                return  # dropped by a fork of another thread
            self.running = False
            data = without_host_names(self._profiler.stop())
        # A mark that ends after the profiler is missing from the trace: its step is incomplete.
        self._end_mark = None
        if len(data) > _MOST_FILE_BYTES:
            raise WindowTooLargeError(f"its trace is larger than {_MOST_FILE_BYTES >> 20} MiB")

        def export(folder: Path) -> None:
            (folder / TRACE_FILE).write_bytes(data)
            with contextlib.suppress(Exception):  # the trace is useful without
                self._profiler.write_beside(folder)

        more = {
            "ran_ahead": self._ran_ahead,
            "drained": self._drained,
            "annotated": self._profiler.annotated,
        }
        self._keep({**self._about("xplane"), **more}, export)

    def _discard(self) -> None:
        """Stop the profiler if it runs, and keep nothing; never raises."""
        with self._forks.switching:
            was_running, self.running, self._end_mark = self.running, False, None
            if was_running:
                with contextlib.suppress(Exception):
                    self._profiler.discard()


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
