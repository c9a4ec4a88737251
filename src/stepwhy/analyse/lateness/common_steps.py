"""Which steps of the run the summaries of two ranks describe, and what both took in the same ones.

Each rank describes the stretch of the run that took most time on it, and is traced in a window of
its own. Their times can be compared only as far as these are the same steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from stepwhy.analyse.ranks.rank_times import Rank
    from stepwhy.analyse.ranks.step_work import StepLog

# Share of the longer of two stretches that both must cover. With less, most of what one of them
# describes is unknown of the other.
_MOSTLY = 0.5


class Stretch(msgspec.Struct, frozen=True):
    """Steps of a run that follow each other.

    Args:
        numbering: Where their numbers come from, see `Collectives`.
        first: The first step.
        stop: The step after the last one.
    """

    numbering: str
    first: int
    stop: int


def described(rank: Rank) -> Stretch | None:
    """The steps that the summary of a rank describes; None if their numbers are unknown.

    Args:
        rank: The rank.
    """
    if rank.log is not None:
        return Stretch("log", rank.log.first, rank.log.stop)
    found = rank.collectives
    if found is None or found.numbering == "order" or not len(found.steps):
        return None
    return Stretch(found.numbering, int(found.steps[0]), int(found.steps[-1]) + 1)


def describe_same(one: Rank, other: Rank) -> bool:
    """Whether two ranks describe mostly the same steps, or it is unknown which.

    Args:
        one: A rank.
        other: Another one, or the same.
    """
    mine, theirs = described(one), described(other)
    if mine is None or theirs is None or mine.numbering != theirs.numbering:
        return True
    shared = min(mine.stop, theirs.stop) - max(mine.first, theirs.first)
    return shared >= _MOSTLY * max(mine.stop - mine.first, theirs.stop - theirs.first)


def longer_ns(one: Rank, other: Rank) -> int | None:
    """How much longer a rank took than another one in the steps that both describe, on average.

    Args:
        one: The rank.
        other: The other one.

    Returns:
        ns per step, negative if it took less; None if no log has these steps of both.
    """
    if one.log is None or other.log is None:
        return None
    first, stop = max(one.log.first, other.log.first), min(one.log.stop, other.log.stop)
    if first >= stop:
        return None
    return _mean_ns(one.log, first, stop) - _mean_ns(other.log, first, stop)


def _mean_ns(log: StepLog, first: int, stop: int) -> int:
    return round(float(log.wall_ns[first:stop].mean()))
