"""Ranks whose steps were timed, but not traced, compared by stack samples of their driving threads.

Ranks that synchronise take equally long in each step, so all but the late one wait within a call of
the framework. The late one is then in a line of the program more often than the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

# Ranks whose steps differ by more, as a share of the shorter one, do not wait for each other.
_ALIKE = 0.1
# Two shares of samples differ for certain from this many standard errors on.
_CERTAIN = 3.0
# Share of the lateness that waits for cores may explain, and share that CPU time has to.
_EXPLAINS = 1 / 3
_COMPUTES = 1 / 2


class UntracedRank(msgspec.Struct, frozen=True):
    """What is known of a rank without a traced step.

    Args:
        number: The rank.
        wall_ns: Its usual step.
        samples: Number of samples of its driving thread.
        outside: How many of them are in lines of the program, outside of the framework.
        line: The line of these with most samples.
        core_wait_ns: How long its driving thread waits for a core per step; None if unknown.
        cpu_ns: CPU time of this thread per step; None if unknown.
    """

    number: int
    wall_ns: int
    samples: int
    outside: int
    line: str
    core_wait_ns: int | None
    cpu_ns: int | None

    @property
    def share(self) -> float:
        """Share of the samples outside of the framework, 0..1."""
        return self.outside / self.samples


class SampledLateness(msgspec.Struct, frozen=True):
    """A rank that is outside of the framework for longer than the others.

    Args:
        rank: The rank.
        more_ns: How much longer than the median of the others, per step.
        least_ns: The same, less three standard errors; not less than 0.
        others_share: Share of the samples of that median which are outside, 0..1.
        compared: Number of ranks that were compared.
        by_cores: Whether waits for cores may be why.
    """

    rank: UntracedRank
    more_ns: int
    least_ns: int
    others_share: float
    compared: int
    by_cores: bool


def find_late_by_samples(ranks: Sequence[UntracedRank]) -> SampledLateness | None:
    """The rank that is outside of the framework most often.

    None if there are no others, or if the steps of the ranks differ, so that they do not wait for
    each other.

    Args:
        ranks: All ranks.
    """
    walls = [rank.wall_ns for rank in ranks]
    if len(ranks) < 2 or max(walls) > (1 + _ALIKE) * min(walls):
        return None
    *others, late = sorted(ranks, key=lambda rank: rank.share)
    other = others[len(others) // 2]
    error = float(np.sqrt(_variance(late) + _variance(other)))
    more, wall_ns = late.share - other.share, late.wall_ns
    more_ns = more * wall_ns
    waits_ns = _longer(late.core_wait_ns, other.core_wait_ns)
    computes_ns = _longer(late.cpu_ns, other.cpu_ns) or 0
    return SampledLateness(
        rank=late,
        more_ns=round(more_ns),
        least_ns=max(round((more - _CERTAIN * error) * wall_ns), 0),
        others_share=other.share,
        compared=len(ranks),
        by_cores=computes_ns < _COMPUTES * more_ns
        and (waits_ns is None or waits_ns > _EXPLAINS * more_ns),
    )


def _longer(own_ns: int | None, other_ns: int | None) -> int | None:
    """How much longer a time is on one rank than on another; None if either is unknown."""
    return None if own_ns is None or other_ns is None else own_ns - other_ns


def _variance(rank: UntracedRank) -> float:
    """Variance of the share of samples, as if one more was outside and one more was not."""
    share = (rank.outside + 1) / (rank.samples + 2)
    return share * (1 - share) / rank.samples
