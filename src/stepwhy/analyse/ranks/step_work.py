"""Work of the same steps on several ranks, by the CPU time of the thread that drives them.

Ranks that exchange data in every step take equally long, so their wall time does not show which one
had more work. CPU time does, because a rank that waits for another one needs none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.trace import NULL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepwhy.analyse.steps.observed import Observed
    from stepwhy.trace import Trace

_FEWEST_STEPS = 10  # with fewer, one long step decides
# Ranks that exchange data in every step differ by less than this share of the median step.
_TOGETHER = 0.1
# Where they wait for cores, they differ by more. If their lengths vary, those of the same number
# are still more alike than neighbouring ones, by at least this factor; of ranks that do not
# exchange data in every step, they are not.
_MORE_ALIKE = 2.0


class StepLog(msgspec.Struct, frozen=True):
    """All observed steps of a rank, and which of them are steady.

    Args:
        wall_ns: Wall time of each step; (steps,).
        cpu_ns: CPU time of its driving thread, NULL if unknown or under a profiler; (steps,).
        first: The first steady step.
        stop: The step after the last steady one.
    """

    wall_ns: NDArray[np.int64]
    cpu_ns: NDArray[np.int64]
    first: int
    stop: int


class VaryingWork(msgspec.Struct, frozen=True):
    """How the work of a step differs between ranks, and from step to step; times are means.

    Args:
        steps: Number of steps that were compared.
        mean_ns: Work of a step, mean of all ranks.
        longest_ns: Work of the rank that has most in the step.
        imbalance_ns: How much of that is because another rank has most work in each step: the rest
            is also left if one rank has most work in all steps.
        spread: Interquartile range of a rank's work over its median, so that pauses in some steps
            do not count; the smallest of all ranks.
        longest: Share of the steps in which each rank has most work; (ranks,).
    """

    steps: int
    mean_ns: int
    longest_ns: int
    imbalance_ns: int
    spread: float
    longest: tuple[float, ...]

    @property
    def lead_ns(self) -> int:
        """How much the work of the rank that has most overall exceeds the mean of all ranks."""
        return self.longest_ns - self.imbalance_ns - self.mean_ns

    @property
    def imbalance(self) -> float:
        """Imbalance as a share of the work that determines how long the step takes, 0..1."""
        return self.imbalance_ns / max(self.longest_ns, 1)


def log_of(trace: Trace, observed: Observed | None) -> StepLog | None:
    """The observed steps of a trace, None without any that is steady.

    Args:
        trace: The trace.
        observed: Its observed steps.
    """
    if observed is None or observed.steady_span_ns is None:
        return None
    marks = trace.marks
    first, stop = np.searchsorted(marks.start_ns, observed.steady_span_ns).tolist()
    cpu_ns = np.where(marks.profiled == 0, marks.cpu_ns, NULL)
    return StepLog(marks.dur_ns, cpu_ns, first, stop)


def find_varying(logs: Sequence[StepLog | None]) -> VaryingWork | None:
    """How the work of the steps varies; None if too few of the same steps are known of all ranks.

    Args:
        logs: The steps of each rank, all from the first step of the run on.
    """
    known = [log for log in logs if log is not None]
    if len(known) < max(len(logs), 2):
        return None
    first, stop = max(log.first for log in known), min(log.stop for log in known)
    wall_ns = np.array([log.wall_ns[first:stop] for log in known])
    cpu_ns = np.array([log.cpu_ns[first:stop] for log in known])
    measured = (cpu_ns != NULL).all(axis=0)
    if measured.sum() < _FEWEST_STEPS or not _are_together(wall_ns):
        return None
    return _varying(cpu_ns[:, measured])


def _are_together(wall_ns: NDArray[np.int64]) -> bool:
    """Whether steps of the same number take equally long on all ranks; (ranks, steps)."""
    are_close = np.median(np.ptp(wall_ns, axis=0)) <= _TOGETHER * np.median(wall_ns)
    return bool(are_close) or _match(wall_ns)


def _match(wall_ns: NDArray[np.int64]) -> bool:
    """Whether steps of the same number are more alike than neighbouring ones; (ranks, steps)."""
    first, others = wall_ns[0], wall_ns[1:]
    same = np.median(np.abs(others - first))
    before = np.median(np.abs(others[:, 1:] - first[:-1]))
    after = np.median(np.abs(others[:, :-1] - first[1:]))
    return bool(_MORE_ALIKE * same <= min(before, after))


def _varying(cpu_ns: NDArray[np.int64]) -> VaryingWork:
    longest_ns, means = cpu_ns.max(axis=0).mean(), cpu_ns.mean(axis=1)
    low, middle, high = np.percentile(cpu_ns, [25, 50, 75], axis=1)
    latest = np.bincount(cpu_ns.argmax(axis=0), minlength=len(cpu_ns))
    return VaryingWork(
        steps=cpu_ns.shape[1],
        mean_ns=round(float(means.mean())),
        longest_ns=round(float(longest_ns)),
        imbalance_ns=round(float(longest_ns - means.max())),
        spread=float(((high - low) / np.maximum(middle, 1)).min()),
        longest=tuple((latest / cpu_ns.shape[1]).tolist()),
    )
