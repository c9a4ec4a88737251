"""Run times of repeated work: whether it has warmed up, and which kind of work is the loop."""

from __future__ import annotations

# The first two or three runs include initialisation, memory allocation and kernel selection.
_EARLIEST = 3
# A job whose steps never settle is traced all the same; otherwise it could not be explained.
_PATIENCE = 8
# Two runs in a row that differ by less count as settled; noise of a shared machine is smaller.
_TOLERANCE = 0.25
# Work with a smaller share of the time, such as polling a queue, drives no loop.
_LEAST_SHARE = 0.05
# An update may take little beside what is computed for each example of a batch, one after another.
_LEAST_UPDATE = 0.01
# Work that runs less often than this, relative to the most frequent, is not part of every step (a
# checkpoint every tenth step).
_LEAST_FREQUENCY = 0.5


TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class RunTimes:
    """Number and duration of the runs of one kind of work.

    Attributes:
        count: Number of runs, including the first.
        total_ns: Total time, without the first run.
        traced: Number of runs under a profiler.
        for_effect: Whether it is known to run for its effect, such as an update of the parameters.
    """

    __slots__ = ("_last_ns", "_previous_ns", "count", "for_effect", "total_ns", "traced")

    def __init__(self) -> None:
        self.count = 0
        self.total_ns = 0
        self.traced = 0
        self.for_effect = False
        self._last_ns = 0
        self._previous_ns = 0

    def add(self, duration_ns: int) -> None:
        """Count one run of this length, in ns."""
        if self.count:
            self.total_ns += duration_ns
        self.count += 1
        self._previous_ns, self._last_ns = self._last_ns, duration_ns

    def settled(self) -> bool:
        """Whether warm-up is over: two runs of similar length, or enough runs."""
        if self.count >= _PATIENCE:
            return True
        difference = abs(self._last_ns - self._previous_ns)
        return self.count >= _EARLIEST and difference <= _TOLERANCE * self._last_ns


def leading(kinds: Sequence[RunTimes]) -> RunTimes | None:
    """The kind of work that makes the loop: the longest of those that run in every step.

    What runs for its effect comes before what only computes: a step that updates parameters once
    may compute values for each example of its batch.

    Args:
        kinds: All kinds of work of one process.
    """
    whole_ns = sum(kind.total_ns for kind in kinds)
    heavy = [r for r in kinds if r.count > 1 and r.total_ns >= _LEAST_SHARE * whole_ns]
    updates = [r for r in kinds if r.for_effect and r.count > 1]
    heavy = [r for r in updates if r.total_ns >= _LEAST_UPDATE * whole_ns] or heavy
    most = max((r.count for r in heavy), default=0)
    steady = (r for r in heavy if r.count >= _LEAST_FREQUENCY * most)
    return max(steady, key=lambda r: r.total_ns, default=None)
