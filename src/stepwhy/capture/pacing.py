"""Pace the observation over a run of any length: light steps, sampling intervals, changes."""

from __future__ import annotations

# In every period, this many steps are light: only their start and end are noted. The difference to
# the other steps is the cost of the observation. A quarter resolves microseconds within a few
# thousand steps, and still leaves most steps fully observed.
_PERIOD = 32
_LIGHT = 8
# The first steps include compilation and decide about windows, so all of them are fully observed.
_FIRST_LIGHT = 16

_SHORTEST_NS = 20_000_000
# The interval grows with the run, so that the number of samples grows with its logarithm.
_SHARE_OF_RUN = 1 / 2000

_BLOCK_STEPS = 8
_BLOCK_NS = 200_000_000
# A step time that differs by less may be noise of a shared machine.
_LASTING_CHANGE = 0.25
# Blocks in a row, all slower or all faster: a pause or a checkpoint is no lasting change.
_LASTING_BLOCKS = 8
_REFERENCE_BLOCKS = 4


def is_light(step: int) -> bool:
    """Whether a step is only timed, as a reference for the fully observed ones.

    Args:
        step: Number of the step in its process, from 0.
    """
    return step >= _FIRST_LIGHT and step % _PERIOD < _LIGHT


class SamplingPace:
    """Decide when the next sample is due, at intervals that grow with the run."""

    __slots__ = ("_due_ns", "_started_ns")

    def __init__(self) -> None:
        self._started_ns = self._due_ns = 0

    def due(self, time_ns: int) -> bool:
        """Whether a sample is due; if so, the caller takes it.

        Args:
            time_ns: The time, on the clock of `now_ns`.
        """
        if time_ns < self._due_ns:
            return False
        self._started_ns = self._started_ns or time_ns
        age_ns = time_ns - self._started_ns
        self._due_ns = time_ns + max(_SHORTEST_NS, int(age_ns * _SHARE_OF_RUN))
        return True


class ChangeDetector:
    """Detect when the step time has changed for good.

    Steps are grouped into blocks of at least 8 steps and 0.2 s. After `restart`, the median
    block of the first four is the reference; eight blocks in a row that are all slower, or all
    faster, than it by a quarter are a lasting change.
    """

    __slots__ = ("_blocks", "_count", "_reference_ns", "_side", "_streak", "_total_ns")

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Forget the reference; the next blocks make a new one."""
        self._blocks: list[float] = []
        self._reference_ns = 0.0
        self._count = self._total_ns = 0
        self._side = self._streak = 0

    def add(self, duration_ns: int) -> bool:
        """Add an unprofiled step.

        Args:
            duration_ns: Its wall time.

        Returns:
            Whether the step time has changed for good; the reference is then reset.
        """
        self._count += 1
        self._total_ns += duration_ns
        if self._count < _BLOCK_STEPS or self._total_ns < _BLOCK_NS:
            return False
        mean_ns = self._total_ns / self._count
        self._count = self._total_ns = 0
        return self._compare(mean_ns)

    def _compare(self, mean_ns: float) -> bool:
        """Compare a block with the reference."""
        if not self._reference_ns:
            self._blocks.append(mean_ns)
            if len(self._blocks) == _REFERENCE_BLOCKS:
                self._reference_ns = sorted(self._blocks)[_REFERENCE_BLOCKS // 2]
            return False
        difference = mean_ns / self._reference_ns - 1
        side = (difference > _LASTING_CHANGE) - (1 / (1 + difference) - 1 > _LASTING_CHANGE)
        self._streak = self._streak + 1 if side and side == self._side else abs(side)
        self._side = side
        if self._streak < _LASTING_BLOCKS:
            return False
        self.restart()
        return True


__all__ = ["ChangeDetector", "SamplingPace", "is_light"]
