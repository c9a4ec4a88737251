"""Meters of the current step; the step log reads and resets them."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from stepwhy.record.core.clock import now_ns
from stepwhy.record.core.compiled_code import never_compiled

if TYPE_CHECKING:
    from collections.abc import Callable

_STATM = Path("/proc/self/statm")
# Of the thread that opens it: nanoseconds on a core, nanoseconds ready but without one, and turns.
_SCHEDSTAT = "/proc/thread-self/schedstat"
_SCHEDSTAT_BYTES = 80
# Threads whose file is opened; the files stay open.
_MOST_THREADS = 4
_LOAD_INTERVAL_NS = 50_000_000

UNKNOWN = -1
"""Value of a meter that could not be read."""


def resident_bytes() -> int:
    """Resident memory of this process; 0 if the system does not report it."""
    try:
        return int(_STATM.read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def _ignore() -> None:
    """Nobody waits for compilations."""


class CompileTime:
    """Time spent tracing and compiling since the last reading.

    Nested intervals count once: intervals arrive when they end, so one that arrives later but began
    earlier contains those before it.

    Attributes:
        intervals: Start, end and event of each, since the last reading.
        on_add: Called with each interval.
    """

    def __init__(self) -> None:
        self.intervals: list[tuple[int, int, str]] = []
        self.on_add: Callable[[], object] = _ignore

    def add(self, event: str, start_ns: int, end_ns: int) -> None:
        """Add an interval that ends now.

        Args:
            event: The framework's name for the work.
            start_ns: When it began.
            end_ns: When it ended.
        """
        while self.intervals and self.intervals[-1][0] >= start_ns:
            self.intervals.pop()
        self.intervals.append((start_ns, end_ns, event))
        self.on_add()

    def began_ns(self) -> int | None:
        """Start of the first interval; None if there is none."""
        return self.intervals[0][0] if self.intervals else None

    def take(self) -> str:
        """Read and reset: the members of a JSON object that go into the log, or ''."""
        if not self.intervals:
            return ""
        by_event: dict[str, int] = {}
        for start_ns, end_ns, event in self.intervals:
            by_event[event] = by_event.get(event, 0) + end_ns - start_ns
        self.intervals = []
        total_ns = sum(by_event.values())
        return f',"compile_ns":{total_ns},"compiled":{json.dumps(by_event, separators=(",", ":"))}'


class InputWait:
    """Time that each thread waited for batches: the wait of a prefetching thread delays no step.

    Args:
        sees_all: Whether a step without a wait had none, once there was one. Otherwise its wait is
            unknown, as some waits are invisible.

    Attributes:
        light: Whether the current step is only timed; nothing is added then.
    """

    __slots__ = ("_sees_all", "_unseen_ns", "_waited", "light")

    def __init__(self, *, sees_all: bool = False) -> None:
        self.light = False
        self._sees_all = sees_all
        self._unseen_ns = UNKNOWN
        self.forget()

    def forget(self) -> None:
        """Start over: nothing has waited (after a fork)."""
        self._waited: dict[int, int] = {}

    @never_compiled
    def add(self, duration_ns: int) -> None:
        """Add to the wait of the calling thread, in ns."""
        if self._sees_all:
            self._unseen_ns = 0
        thread = threading.get_ident()
        self._waited[thread] = self._waited.get(thread, 0) + duration_ns

    @never_compiled
    def take(self) -> int:
        """Read and reset the wait of the calling thread, in ns; `UNKNOWN` if none was seen."""
        if not self._waited:
            return self._unseen_ns
        return self._waited.pop(threading.get_ident(), self._unseen_ns)


class ThreadTime:
    """CPU time of the driving thread; the rest of the wall time it waits.

    Attributes:
        thread: The thread that has read it last; 0 for none.
    """

    __slots__ = ("_last_ns", "thread")

    def __init__(self) -> None:
        self.thread = self._last_ns = 0

    def take(self) -> int:
        """CPU time of this thread since its last reading, ns; `UNKNOWN` if another one read it."""
        thread, used_ns = threading.get_ident(), time.thread_time_ns()
        since_ns = used_ns - self._last_ns if thread == self.thread else UNKNOWN
        self._last_ns, self.thread = used_ns, thread
        return since_ns


class ProcessLoad:
    """CPU time of all threads of the process, and time that this thread waited for a core.

    A reading takes up to 30 us between two steps, where the code is in no cache. Of short steps,
    therefore, only some are measured: one begins 50 ms after the last one ended, at the earliest.

    The file of the kernel stays open, as opening it would take most of the time. It is never
    closed: a program may have closed all of its files, and have opened another with that number.
    """

    __slots__ = (
        "_cpu_ns", "_delay_ns", "_due_ns", "_file", "_opened", "_pid", "_start_ns", "_thread",
    )  # fmt: skip

    def __init__(self) -> None:
        self._pid = self._thread = 0
        self.start_over()

    def take(self) -> tuple[int, int]:
        """CPU time and wait in the step that ends here, ns; `UNKNOWN` if it was not measured.

        A step begins with this call, or where the last one of the same thread was.
        """
        thread, time_ns = threading.get_ident(), now_ns()
        if thread != self._thread:
            self._thread, self._start_ns, self._due_ns = thread, 0, 0
            self._open()
        if self._start_ns:
            return self._end(time_ns)
        if time_ns >= self._due_ns:
            self._start_ns = time_ns
            self._cpu_ns, self._delay_ns = time.process_time_ns(), self._read_delay()
        return UNKNOWN, UNKNOWN

    def forget(self) -> None:
        """Do not measure the step that begins here."""
        self._start_ns = 0

    def start_over(self) -> None:
        """Start over, as in a process that has seen no step (after a fork).

        The file that was opened in another process is about a thread of that process.
        """
        self._start_ns = self._due_ns = 0
        if self._pid != os.getpid():
            self._pid, self._opened, self._thread = os.getpid(), 0, 0
            self._cpu_ns = self._delay_ns = self._file = UNKNOWN

    def _end(self, time_ns: int) -> tuple[int, int]:
        """End the measured step; a long one is followed by another."""
        cpu_ns, delay_ns = time.process_time_ns(), self._read_delay()
        waited_ns = delay_ns - self._delay_ns if min(delay_ns, self._delay_ns) >= 0 else UNKNOWN
        used_ns = cpu_ns - self._cpu_ns
        self._cpu_ns, self._delay_ns = cpu_ns, delay_ns
        self._start_ns = time_ns if time_ns - self._start_ns >= _LOAD_INTERVAL_NS else 0
        self._due_ns = time_ns + _LOAD_INTERVAL_NS
        return used_ns, max(waited_ns, UNKNOWN)

    def _open(self) -> None:
        self._file = UNKNOWN
        if self._opened < _MOST_THREADS:
            self._opened += 1
            try:
                self._file = os.open(_SCHEDSTAT, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                self._opened = _MOST_THREADS

    def _read_delay(self) -> int:
        if self._file < 0:
            return UNKNOWN
        try:
            _, delay, _ = os.pread(self._file, _SCHEDSTAT_BYTES, 0).split()
            return int(delay)
        except (OSError, ValueError):
            self._file, self._opened = UNKNOWN, _MOST_THREADS
            return UNKNOWN


def load_members(used_ns: int, waited_ns: int) -> str:
    """Members of a log line for what `ProcessLoad` has read; '' for what is unknown."""
    used = f',"process_cpu_ns":{used_ns}' if used_ns >= 0 else ""
    return used + (f',"run_delay_ns":{waited_ns}' if waited_ns >= 0 else "")


def input_wait_member(wait_ns: int) -> str:
    """Member of a log line for what `InputWait` has read."""
    return ',"input_wait_ns":null' if wait_ns < 0 else f',"input_wait_ns":{wait_ns}'


def measured_members(wait_ns: int, cpu_ns: int, load: tuple[int, int]) -> str:
    """Members of the log line of an observed step.

    Args:
        wait_ns: What `InputWait` has read.
        cpu_ns: What `ThreadTime` has read.
        load: What `ProcessLoad` has read.
    """
    cpu = "null" if cpu_ns < 0 else cpu_ns
    return f'{input_wait_member(wait_ns)},"cpu_ns":{cpu}{load_members(*load)}'
