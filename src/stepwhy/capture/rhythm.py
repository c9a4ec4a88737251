"""When a repeating piece of work is warm enough to be traced."""

from __future__ import annotations

# First runs pay for initialisation, memory and kernel selection; frameworks need two or three.
_EARLIEST = 3
# A job whose steps never settle is traced all the same, or it could not be explained at all.
_PATIENCE = 8
# Two steps in a row this close to each other count as settled: noise of a shared machine is less.
_TOLERANCE = 0.25


class Rhythm:
    """How often a piece of work has run and how long it takes.

    Attributes:
        count: Runs seen, the first included.
        total_ns: Their time without the first run's.
        traced: How many of them a profiler watched.
    """

    __slots__ = ("_last_ns", "_previous_ns", "count", "total_ns", "traced")

    def __init__(self) -> None:
        self.count = 0
        self.total_ns = 0
        self.traced = 0
        self._last_ns = 0
        self._previous_ns = 0

    def add(self, duration_ns: int) -> None:
        """Count one run of this length, in ns."""
        if self.count:
            self.total_ns += duration_ns
        self.count += 1
        self._previous_ns, self._last_ns = self._last_ns, duration_ns

    def settled(self) -> bool:
        """Whether the warm-up is over: two runs of equal length, or patience is."""
        if self.count >= _PATIENCE:
            return True
        difference = abs(self._last_ns - self._previous_ns)
        return self.count >= _EARLIEST and difference <= _TOLERANCE * self._last_ns
