"""A bound on the CPU time that sampling takes, as a share of the run so far."""

from __future__ import annotations

import resource


class CpuBudget:
    """What sampling has cost, and when it may cost more.

    Args:
        share: Share of one core that it may take over the whole run.
        start_s: CPU time that it may take in addition, from the start of the run, s.

    Attributes:
        share: The same.
        spent_s: CPU time that it has taken so far, s.
    """

    def __init__(self, share: float, start_s: float = 0.0) -> None:
        self.share = share
        self._start_s = start_s
        self.spent_s = 0.0

    def due_s(self, next_s: float = 0.0) -> float:
        """Age of the run, in s, from which another expense is within the bound.

        Args:
            next_s: The expense: CPU time in s.
        """
        return max((self.spent_s + next_s - self._start_s) / self.share, 0.0)


def children_cpu_s() -> float:
    """CPU time in s of all processes that this one started, and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
