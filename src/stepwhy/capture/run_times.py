"""When a repeating piece of work is warm enough to be traced."""

from __future__ import annotations

# First runs pay for initialisation, memory and kernel selection; frameworks need two or three.
_EARLIEST = 3
# A job whose steps never settle is traced all the same, or it could not be explained at all.
_PATIENCE = 8
# Two steps in a row this close to each other count as settled: noise of a shared machine is less.
_TOLERANCE = 0.25
# Work with a smaller share of the time (polling a queue) drives no loop, however often it runs.
_LEAST_SHARE = 0.05
# Work that runs less often than this, relative to the most frequent, does not run in every step,
# however long it takes (a checkpoint every tenth step).
_LEAST_FREQUENCY = 0.5


TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


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


def leading(rhythms: Sequence[Rhythm]) -> Rhythm | None:
    """The kind of work that makes the loop: of those that run in every step, the longest.

    Args:
        rhythms: All kinds of work of one process.
    """
    whole_ns = sum(rhythm.total_ns for rhythm in rhythms)
    heavy = [r for r in rhythms if r.count > 1 and r.total_ns >= _LEAST_SHARE * whole_ns]
    most = max((r.count for r in heavy), default=0)
    steady = (r for r in heavy if r.count >= _LEAST_FREQUENCY * most)
    return max(steady, key=lambda r: r.total_ns, default=None)
