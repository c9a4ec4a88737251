"""When to look, and when to look away: what paces the observer over a run of any length."""

from __future__ import annotations

# Of every period this many steps are light: only their start and end are noted. The difference to
# the other steps is what the observation costs; a quarter is enough to resolve microseconds in a
# few thousand steps, and loses little of what the other steps tell.
_PERIOD = 32
_LIGHT = 8
# The first steps pay for compilation and decide about windows: all of them are noted in full.
_FIRST_LIGHT = 16

_SHORTEST_NS = 20_000_000
# The interval grows with the run, so that what is sampled grows with its logarithm.
_SHARE_OF_RUN = 1 / 2000

_BLOCK_STEPS = 8
_BLOCK_NS = 200_000_000
# A step time that differs by less may be noise of a shared machine.
_LASTING_CHANGE = 0.25
# So many blocks in a row, all to the same side: a pause or a checkpoint is no lasting change.
_LASTING_BLOCKS = 8
_REFERENCE_BLOCKS = 4


def is_light(step: int) -> bool:
    """Whether a step is only timed, so that it can be compared with those that are observed.

    Args:
        step: Number of the step in its process, from 0.
    """
    return step >= _FIRST_LIGHT and step % _PERIOD < _LIGHT


class Ration:
    """Says when the next sample of something is due: often at first, then ever more rarely."""

    __slots__ = ("_due_ns", "_started_ns")

    def __init__(self) -> None:
        self._started_ns = self._due_ns = 0

    def due(self, time_ns: int) -> bool:
        """Whether a sample is due; taking it is assumed.

        Args:
            time_ns: The time, on the clock of `now_ns`.
        """
        if time_ns < self._due_ns:
            return False
        self._started_ns = self._started_ns or time_ns
        age_ns = time_ns - self._started_ns
        self._due_ns = time_ns + max(_SHORTEST_NS, int(age_ns * _SHARE_OF_RUN))
        return True


class Change:
    """Notices when the step time has changed for good.

    Steps are taken together in blocks of at least 8 steps and 0.2 s. After `restart`, the median
    block of the first four is the reference; eight blocks in a row that are all slower, or all
    faster, than it by a quarter are a lasting change.
    """

    __slots__ = ("_blocks", "_count", "_reference_ns", "_side", "_streak", "_total_ns")

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """What comes next is the new normal."""
        self._blocks: list[float] = []
        self._reference_ns = 0.0
        self._count = self._total_ns = 0
        self._side = self._streak = 0

    def add(self, duration_ns: int) -> bool:
        """Take an unprofiled step into account.

        Args:
            duration_ns: Its wall time.

        Returns:
            Whether the change has lasted; the reference begins anew then.
        """
        self._count += 1
        self._total_ns += duration_ns
        if self._count < _BLOCK_STEPS or self._total_ns < _BLOCK_NS:
            return False
        mean_ns = self._total_ns / self._count
        self._count = self._total_ns = 0
        return self._judge(mean_ns)

    def _judge(self, mean_ns: float) -> bool:
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


__all__ = ["Change", "Ration", "is_light"]
