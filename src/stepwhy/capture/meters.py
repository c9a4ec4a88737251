"""Meters of the current step; the step log reads and resets them."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path

_STATM = Path("/proc/self/statm")


def resident_bytes() -> int:
    """Resident memory of this process; 0 if the system does not report it."""
    try:
        return int(_STATM.read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


class CompileTime:
    """Time spent tracing and compiling since the last reading.

    Nested intervals count once: intervals arrive when they end, so one that arrives later but began
    earlier contains those before it.
    """

    def __init__(self) -> None:
        self._intervals: list[tuple[int, int, str]] = []

    def add(self, event: str, start_ns: int, end_ns: int) -> None:
        """Add an interval that ends now.

        Args:
            event: The framework's name for the work.
            start_ns: When it began.
            end_ns: When it ended.
        """
        while self._intervals and self._intervals[-1][0] >= start_ns:
            self._intervals.pop()
        self._intervals.append((start_ns, end_ns, event))

    def began_ns(self) -> int | None:
        """Start of the first interval; None if there is none."""
        return self._intervals[0][0] if self._intervals else None

    def take(self) -> str:
        """Read and reset: the members of a JSON object that go into the log, or ''."""
        if not self._intervals:
            return ""
        by_event: dict[str, int] = {}
        for start_ns, end_ns, event in self._intervals:
            by_event[event] = by_event.get(event, 0) + end_ns - start_ns
        self._intervals = []
        total_ns = sum(by_event.values())
        return f',"compile_ns":{total_ns},"compiled":{json.dumps(by_event, separators=(",", ":"))}'


class InputWait:
    """Time that the driving thread waited for batches since the last reading."""

    __slots__ = ("_waited_ns",)

    def __init__(self) -> None:
        self._waited_ns = 0

    def add(self, duration_ns: int) -> None:
        """Add a wait, in ns."""
        self._waited_ns += duration_ns

    def take(self) -> int | None:
        """Read and reset: the wait in ns; None if none was seen, as some waits are invisible."""
        waited_ns, self._waited_ns = self._waited_ns, 0
        return waited_ns or None


class ThreadTime:
    """CPU time of the driving thread; the rest of the wall time it waits."""

    __slots__ = ("_last_ns", "_thread")

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start over: the next reading has no known start."""
        self._thread = self._last_ns = 0

    def take(self) -> int | None:
        """CPU time of this thread since the last reading, ns; None if another thread read it."""
        used_ns, thread = time.thread_time_ns(), threading.get_ident()
        since_ns = used_ns - self._last_ns if thread == self._thread else None
        self._last_ns, self._thread = used_ns, thread
        return since_ns
