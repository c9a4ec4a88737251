"""Limits on the memory and the time of a query, which may ask for more than any machine has."""

from __future__ import annotations

import resource
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import msgspec

from stepwhy.base.errors import QueryLimitError
from stepwhy.base.units import format_bytes, format_ns
from stepwhy.read.inputs.memory import available_bytes, data_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_BYTES = 4_000_000_000
"""Default limit of the memory of a query: sorting ten million rows takes less than 1 GB."""
MOST_S = 120.0
"""Default limit of the time of a query. Those of the guide take seconds on a trace of 1 GB."""

# At most this share of the free memory, since the tables and the system need some, too.
_SHARE_OF_FREE = 0.5
# DuckDB keeps to its limit. Python's objects of the rows that are fetched come on top.
_TIMES_WITH_ROWS = 2
_AGAIN_S = 0.05  # between two interrupts
_TODO = "Aggregate or filter before joins and sorts, or run 'stepwhy sql' with a higher {}"


class Limits(msgspec.Struct, frozen=True):
    """What one query may use.

    Args:
        memory_bytes: Memory beside that of the tables.
        time_s: Time in which DuckDB works on it.
    """

    memory_bytes: int
    time_s: float


def limits_of(memory_bytes: int | None = None, time_s: float | None = None) -> Limits:
    """The limits of a query.

    Args:
        memory_bytes: Limit of its memory; None for the default.
        time_s: Limit of its time; None for the default.
    """
    if memory_bytes is None:
        left = available_bytes()
        memory_bytes = MOST_BYTES if left is None else min(MOST_BYTES, int(left * _SHARE_OF_FREE))
    return Limits(memory_bytes, MOST_S if time_s is None else time_s)


def too_much_memory(limits: Limits) -> QueryLimitError:
    """The error of a query that needs more memory."""
    return QueryLimitError(
        f"the query needs more than {format_bytes(limits.memory_bytes)} of memory",
        _TODO.format("--memory-limit"),
    )


def too_much_time(limits: Limits) -> QueryLimitError:
    """The error of a query that takes longer."""
    return QueryLimitError(
        f"the query takes more than {format_ns(round(limits.time_s * 1e9))}",
        _TODO.format("--time-limit"),
    )


class Clock:
    """Interrupts a connection when its query has taken too long.

    Args:
        connection: The connection of DuckDB.
        limits: The limits of the query.

    Attributes:
        is_over: Whether the query was interrupted.
    """

    def __init__(self, connection: Any, limits: Limits) -> None:
        self._connection = connection
        self._left_s = limits.time_s
        self.is_over = False

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count the time of a block in which DuckDB works; who reads the rows may be slow."""
        has_ended = threading.Event()
        timer = threading.Thread(target=self._interrupt, args=[has_ended], daemon=True)
        started_s = time.monotonic()
        timer.start()
        try:
            yield
        finally:
            has_ended.set()
            # A thread that still ends when Python exits aborts the process.
            timer.join()
            self._left_s -= time.monotonic() - started_s

    def _interrupt(self, has_ended: threading.Event) -> None:
        """Interrupt the query when its time is over; DuckDB forgets what comes too early."""
        wait_s = max(self._left_s, 0)
        while not has_ended.wait(wait_s):
            self.is_over = True
            self._connection.interrupt()
            wait_s = _AGAIN_S


@contextmanager
def bounded_memory(limits: Limits) -> Iterator[None]:
    """Let allocations fail that go far beyond the limit, such as Python's objects of huge rows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    with suppress(OSError, ValueError):  # the system does not tell how much is in use
        most = data_bytes() + _TIMES_WITH_ROWS * limits.memory_bytes
        if soft == resource.RLIM_INFINITY or most < soft:
            resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
