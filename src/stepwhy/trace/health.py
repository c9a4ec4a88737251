"""Named counters for everything an importer dropped, repaired or guessed.

`integrity` checks that events read = events kept + the sum of all *dropped* counters.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Severity = Literal["info", "warning", "error"]
KERNELS_MISSING = "kernels-missing"
"""Counter of records of an accelerator whose profiler delivered no kernel."""
CUT_OFF = ("json-truncated", "gzip-truncated", "protobuf-truncated", "database-truncated")
"""Counters of files whose end is missing."""


class HealthCounter(msgspec.Struct, frozen=True):
    """How often one thing happened while a file was read.

    Args:
        counter: A noun phrase with dashes, e.g. 'json-truncated'.
        severity: 'info': by design; 'warning': a number may be off; 'error': data is missing.
        count: Number of events.
        help: What it means for the result and what to do, one or two sentences.
        dropped: Whether these events are absent from the trace (otherwise repaired or guessed).
    """

    counter: str
    severity: Severity
    count: int
    help: str
    dropped: bool


class Health(msgspec.Struct):
    """The counters of one input.

    Args:
        events_read: Records seen in the file.
        events_kept: Records represented in the trace.
    """

    events_read: int = 0
    events_kept: int = 0
    _counters: dict[str, HealthCounter] = msgspec.field(default_factory=dict)

    def count(
        self, counter: str, severity: Severity, text: str, *, count: int = 1, dropped: bool
    ) -> None:
        """Add to a counter; a count of zero adds no counter."""
        if count == 0:
            return
        before = self._counters.get(counter)
        total = count + (before.count if before else 0)
        self._counters[counter] = HealthCounter(counter, severity, total, text, dropped)

    @property
    def counters(self) -> tuple[HealthCounter, ...]:
        """All counters, worst first."""
        rank = {"error": 0, "warning": 1, "info": 2}
        return tuple(sorted(self._counters.values(), key=lambda c: (rank[c.severity], c.counter)))

    @property
    def dropped(self) -> int:
        """Number of events that were read but are not in the trace."""
        return sum(c.count for c in self._counters.values() if c.dropped)

    def has(self, counter: str) -> bool:
        """Whether the counter is above zero."""
        return counter in self._counters
