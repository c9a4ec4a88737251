"""Write down where the process stands when a step takes much longer than usual.

Nothing of this needs the thread that drives the loop, which may never return from a collective. A
thread of its own sleeps until the current step is due to be too long, so that it wakes a few times
per minute at most, holds no lock, and blocks all signals, which belong to the program.

A stall is a step that takes ten times the median step, and at least 30 s; the variable
`STEPWHY_STALL_SECONDS` changes the latter. The file `stall.json.gz`, version 1, appears whole, and
is written again when the step has taken twice as long as at the last time::

    {"schema": "stepwhy.stall/1", "time_ns": ..., "since_ns": ..., "steps": 412, "usual_ns": ...,
     "lines": ["train.py(40): main", "train.py(31): step"], "inside": "jax: ArrayImpl.__float__",
     "recorder": {...}}

`lines` are those of the program on the stack of the driving thread, outermost first; `inside` is
the package and function that the last of them has called, '' if that is not known; `recorder` is
what `torch.flight_recorder` returns, null without one. A later step in the log means that the
process went on.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import signal
import statistics
import sys
import threading
from typing import TYPE_CHECKING, NamedTuple

from stepwhy.record.core.clock import now_ns
from stepwhy.record.core.process import lifetime
from stepwhy.record.core.process.ranks import place_in_job
from stepwhy.record.core.user_code import line_of
from stepwhy.record.steps.native_calls import called_natively

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import FrameType
    from typing import Any

    from stepwhy.record.core.recorder import Recorder

STALL_FILE = "stall.json.gz"
STALL_VARIABLE = "STEPWHY_STALL_SECONDS"
"""Seconds that a step takes at least before the process writes down where it stands."""

_SCHEMA = "stepwhy.stall/1"
_SHORTEST_S = 30.0
_TIMES_MEDIAN = 10
_AGAIN = 2  # times as long as when it was last written
_FEWEST_STEPS = 3  # with fewer, the median says little
_NS = 1_000_000_000
_SHORTEST_SLEEP_S = 0.05
_MOST_LINES = 50
# Packages of `stepwhy.record`, and the framework whose functions they wrap.
_OBSERVED = {
    "jax": "jax",
    "keras": "keras",
    "tf1": "tensorflow",
    "tf2": "tensorflow",
    "torch": "torch",
}


class Standing(NamedTuple):
    """The step that a process is in.

    Args:
        since_ns: When it began.
        steps: Number of steps before it.
        recent_ns: Durations of some of these.
        thread: Id of the thread that drives the loop; 0 for the main thread.
    """

    since_ns: int
    steps: int
    recent_ns: Sequence[int]
    thread: int


class StallWatch:
    """Watches the steps of this process.

    Args:
        recorder: Writes the file.
        standing: The current step; None while there is none. Called from another thread.
        collectives: What the process has entered; called from another thread, may raise. None
            where that is not recorded.
        clock: The time, ns.
    """

    def __init__(
        self,
        recorder: Recorder,
        standing: Callable[[], Standing | None],
        collectives: Callable[[], dict[str, Any]] | None = None,
        clock: Callable[[], int] = now_ns,
    ) -> None:
        self._recorder = recorder
        self._standing = standing
        self._collectives = collectives
        self._clock = clock
        self._shortest_ns = _shortest_ns()
        self._since_ns = self._due_ns = 0
        self._stopped: threading.Event | None = None
        lifetime.on_end(self.stop)

    def forget(self) -> None:
        """Start over, as in a process without this thread (after a fork)."""
        self._stopped = None
        self._since_ns = self._due_ns = 0

    def start(self) -> None:
        """Start the thread, once; never raises."""
        if self._stopped is not None:
            return
        self._stopped = stopped = threading.Event()
        with contextlib.suppress(Exception):
            _start(lambda: self._loop(stopped))

    def start_in_job(self) -> None:
        """Start the thread if this process is one rank of several; never raises."""
        if (place_in_job()[1] or 1) > 1:
            self.start()

    def stop(self) -> None:
        """End the thread."""
        if self._stopped is not None:
            self._stopped.set()

    def _loop(self, stopped: threading.Event) -> None:
        sleep_s = self._shortest_ns / _NS
        while not stopped.wait(sleep_s):
            try:
                sleep_s = self.look()
            except Exception:
                sleep_s = self._shortest_ns / _NS

    def look(self) -> float:
        """Write the file if it is due; return for how long nothing is due, seconds."""
        standing = self._standing()
        if standing is None:
            return self._shortest_ns / _NS
        usual_ns = _median(standing.recent_ns)
        if standing.since_ns != self._since_ns:
            self._since_ns = standing.since_ns
            self._due_ns = max(self._shortest_ns, _TIMES_MEDIAN * (usual_ns or 0))
        lasted_ns = self._clock() - standing.since_ns
        if lasted_ns >= self._due_ns:
            self._write(standing, usual_ns)
            self._due_ns = _AGAIN * lasted_ns
        return max((self._due_ns - lasted_ns) / _NS, _SHORTEST_SLEEP_S)

    def _write(self, standing: Standing, usual_ns: int | None) -> None:
        """Write where the process stands; first without the recorder, whose lock may be held."""
        content = {
            "schema": _SCHEMA,
            "time_ns": self._clock(),
            "since_ns": standing.since_ns,
            "steps": standing.steps,
            "usual_ns": usual_ns,
            "lines": lines_of(standing.thread),
            "inside": inside_of(standing.thread),
            "recorder": None,
        }
        self._recorder.note(STALL_FILE, content)
        if self._collectives is None:
            return
        with contextlib.suppress(Exception):
            content["recorder"] = self._collectives()
            self._recorder.note(STALL_FILE, content)


def lines_of(thread: int) -> list[str]:
    """Lines of the program on the stack of a thread, outermost first.

    Args:
        thread: Its id; 0 for the main thread.
    """
    lines = [line for frame in _frames(thread) if (line := line_of(frame))]
    return lines[:_MOST_LINES][::-1]


def inside_of(thread: int) -> str:
    """The function of a library that the innermost line of the program has called.

    Args:
        thread: Id of the thread; 0 for the main thread.

    Returns:
        Its package and name, 'jax: ArrayImpl.__float__'; '' if that is not known.
    """
    called = ""
    for frame in _frames(thread):
        if line_of(frame):
            return called or called_natively(frame)
        name = _named(frame)
        if name and not _wraps(name, called):
            called = name
    return called


def _wraps(name: str, inner: str) -> bool:
    """Whether a function is what a decorator has made around an inner one of its package."""
    return "<locals>" in name and name.partition(":")[0] == inner.partition(":")[0]


def _named(frame: FrameType) -> str:
    """Package and name of the function of a frame; '' for what is stepwhy's own.

    What an observer has wrapped has the name of the original, which may be written in C++.
    """
    package, *inner = str(frame.f_globals.get("__name__", "")).split(".")
    if package != "stepwhy":
        return f"{package}: {frame.f_code.co_qualname}" if package else ""
    framework = next((_OBSERVED[name] for name in inner if name in _OBSERVED), "")
    original = frame.f_locals.get("original") if framework else None
    name = getattr(original, "__name__", "")
    return f"{framework}: {name}" if name else ""


def _frames(thread: int) -> Iterator[FrameType]:
    """The frames on the stack of a thread, the innermost first."""
    frame = sys._current_frames().get(thread or threading.main_thread().ident or 0)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _median(durations_ns: Sequence[int]) -> int | None:
    """The median step, ns; None with too few steps."""
    if len(durations_ns) < _FEWEST_STEPS:
        return None
    return round(statistics.median(durations_ns))


def _shortest_ns() -> int:
    """Shortest stall, ns."""
    try:
        seconds = float(os.environ.get(STALL_VARIABLE, ""))
    except ValueError:
        seconds = 0.0
    return round((seconds if 0 < seconds < 1e6 else _SHORTEST_S) * _NS)


def _start(work: Callable[[], None]) -> None:
    """Start a thread that gets no signal: those belong to the threads of the program.

    Nor does `threading` know it, as programs wait for the end of all threads that it lists.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        _thread.start_new_thread(work, ())
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
