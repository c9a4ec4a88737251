"""Which source line holds the thread that drives the loop: samples that the GIL does not bias.

A thread that reads frames can only do so while it holds the interpreter's lock, so it sees the
driving thread where that lets go of the lock, and never where it computes in Python. The watchdog
of `faulthandler` runs without the lock. For a few seconds after the first traced window it writes
the stacks to a nameless file; when the process ends they are counted and kept as `stacks.json`::

    {"schema", "start_ns", "end_ns", "interval_ns",
     "samples": [{"line": "train.py(12): augment", "leaf": "numpy", "count": 40}, ...]}

`line` is the innermost line of the user's own code, `leaf` the package in which the thread was
('' for the user's own code). Paths outside the program's folder are not kept.

Source: CPython's Modules/faulthandler.c (what the watchdog prints).
"""

from __future__ import annotations

import re
import tempfile
import threading
from collections import Counter
from typing import TYPE_CHECKING

from stepwhy.capture import watchdog
from stepwhy.capture.clock import now_ns

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO, Any

STACKS_FILE = "stacks.json"
SCHEMA = "stepwhy.stacks/1"
# A prime number of 100 us, so that samples do not lock onto a step of a round length.
_INTERVAL_S = 0.0071
_LONGEST_NS = 2_000_000_000
_FEWEST_STEPS = 5
# Steps without a new window before sampling begins: profiler and sampler never watch together.
_STEPS_AFTER_WINDOW = 3
_MOST_LINES = 200
# A job with hundreds of threads could write gigabytes otherwise.
_MOST_BYTES = 32 << 20


class StackSampler:
    """Samples the calling thread's stack for a while, once per process.

    Attributes:
        window: When it sampled, (start, end) in ns; None before that.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin as in a process that has sampled nothing (a fork has no watchdog)."""
        self.window: tuple[int, int] | None = None
        self._file: IO[bytes] | None = None
        self._running = False
        self._windows = 0
        self._since_window = 0
        self._steps = 0
        self._start_ns = 0
        self._thread = 0

    def stepped(self, windows: int) -> None:
        """A step was logged by the calling thread: begin, go on, or end.

        Args:
            windows: Traced windows so far.
        """
        if self.window is not None:
            return
        if self._running:
            self._go_on(windows)
            return
        self._since_window = self._since_window + 1 if windows == self._windows else 0
        self._windows = windows
        if windows and self._since_window >= _STEPS_AFTER_WINDOW and watchdog.is_free():
            self._begin()

    def _begin(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - lives until the process ends
        self._thread = threading.get_ident()
        self._start_ns, self._steps, self._running = now_ns(), 0, True
        watchdog.start(_INTERVAL_S, self._file)

    def _go_on(self, windows: int) -> None:
        self._steps += 1
        late = now_ns() - self._start_ns > _LONGEST_NS and self._steps >= _FEWEST_STEPS
        if late or windows != self._windows or not watchdog.is_free():
            self.end()

    def end(self) -> None:
        """Stop sampling."""
        if not self._running:
            return
        watchdog.stop()
        self._running = False
        self.window = (self._start_ns, now_ns())

    def samples(self) -> dict[str, Any] | None:
        """What `stacks.json` holds, None when nothing was sampled."""
        self.end()
        if self._file is None or self.window is None:
            return None
        self._file.seek(0)
        counts = count_lines(self._file.read(_MOST_BYTES), self._thread)
        rows = [
            {"line": line, "leaf": leaf, "count": count}
            for (line, leaf), count in counts.most_common(_MOST_LINES)
        ]
        return {
            "schema": SCHEMA,
            "start_ns": self.window[0],
            "end_ns": self.window[1],
            "interval_ns": round(_INTERVAL_S * 1e9),
            "samples": rows,
        }


_FRAME = re.compile(rb'^  File "(.*)", line (\d+) in (.*)$')
_PACKAGE = re.compile(r"[/\\](?:site|dist)-packages[/\\]([^/\\]+)")


def count_lines(text: bytes, thread: int) -> Counter[tuple[str, str]]:
    """Count samples by (innermost line of the user's code, package of the innermost frame).

    Args:
        text: What the watchdog wrote.
        thread: Identity of the thread whose stacks count.
    """
    from stepwhy.capture.tf1_sources import UserFiles

    files = UserFiles()
    counts: Counter[tuple[str, str]] = Counter()
    for frames in _stacks(text, thread):
        if not frames:
            continue
        own = ((files.user_name(path), line, name) for path, line, name in frames)
        line = next((f"{file}({at}): {name}" for file, at, name in own if file is not None), "")
        counts[line, _package(frames[0][0], files.user_name(frames[0][0]))] += 1
    return counts


def _package(path: str, user_name: str | None) -> str:
    if user_name is not None:
        return ""
    found = _PACKAGE.search(path)
    return found[1].removesuffix(".py") if found else "python"


def _stacks(text: bytes, thread: int) -> Iterator[list[tuple[str, int, str]]]:
    """Frames of one thread, innermost first, sample by sample."""
    for section in re.split(rb"^(?:Current t|T)hread 0x", text, flags=re.MULTILINE)[1:]:
        number, _, rest = section.partition(b" ")
        if int(number, 16) != thread:
            continue
        found = (_FRAME.match(line) for line in rest.split(b"\n")[1:])
        yield [
            (m[1].decode(errors="replace"), int(m[2]), m[3].decode(errors="replace"))
            for m in found
            if m is not None
        ]
