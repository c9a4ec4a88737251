"""What a late rank does while the others wait for it: category, operation, phase and line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.analyse.lateness.call_lateness import CallLateness, lateness_of_calls
from stepwhy.analyse.lateness.late_ranks import lateness_of
from stepwhy.analyse.ranks.rank_times import MOST_OPERATIONS, find_late
from stepwhy.result import CATEGORIES
from stepwhy.trace import Phase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.analyse.facts import Facts
    from stepwhy.analyse.ranks.rank_times import LateRank, OpTime, Rank

# A rank that takes so much of a step longer than the median one is late.
_LATE = 0.05
# An operation, or a line, explains why a rank is late if it takes this share of it longer.
_MAIN = 0.3
_ON_DEVICE = frozenset({"compute", "transfer"})


class LateWork(msgspec.Struct, frozen=True):
    """What a rank does longer than the others, in the mean step.

    Args:
        category: Category of the breakdown in which it spends most in addition.
        more_ns: How much more.
        operation: The operation that takes longest in addition; '' if none explains it.
        operation_ns: How much longer that takes, at least.
        phase: Its phase; '' if unknown.
        line: The line of the program that takes longest in addition; '' if none is known.
    """

    category: str
    more_ns: int
    operation: str = ""
    operation_ns: int = 0
    phase: str = ""
    line: str = ""


def late_work(facts: Facts, rank: Rank) -> LateWork | None:
    """What a rank does longer than the others of its stage; None if it is not late.

    Args:
        facts: Facts of any rank, with all ranks in `Facts.ranks`.
        rank: The rank.
    """
    if not _is_late(facts, rank):
        return None
    others = [other for other in facts.ranks if other is not rank and other.stage == rank.stage]
    if not others:
        return None
    excess = {
        name: rank.breakdown[name] - float(np.median([o.breakdown[name] for o in others]))
        for name in CATEGORIES
        if name != "communication"
    }
    category = max(excess, key=lambda name: excess[name])
    more_ns = round(excess[category])
    line, _ = _longest(rank.lines, [other.lines for other in others], more_ns)
    is_host = category not in _ON_DEVICE and not rank.on_cpu
    # On a CPU, the operations of the host are those of the device.
    mine, *theirs = (
        tuple(one for one in each.operations if one.on_host is is_host or each.on_cpu)
        for each in (rank, *others)
    )
    operation, operation_ns = _longest(mine, theirs, more_ns)
    found = LateWork(category, more_ns, line=line.name if line else rank.line if is_host else "")
    if operation is None:
        return found
    phase = "" if operation.phase == Phase.UNKNOWN else operation.phase.name.lower()
    return LateWork(category, more_ns, operation.name, operation_ns, phase, found.line)


def _is_late(facts: Facts, rank: Rank) -> bool:
    """Whether a rank is late in more steps than by chance, or certainly late in the mean step."""
    known = [one.late for one in facts.derived(lateness_of) if one.late is not None]
    if any(rank.number in late.ranks for late in known) or _always_arrives_late(facts, rank):
        return True
    late = facts.derived(_latest)
    if late is None or rank.number not in late.together:
        return False
    return late.is_certain and late.work_ns >= _LATE * rank.wall_ns


def _always_arrives_late(facts: Facts, rank: Rank) -> bool:
    """Whether a rank is late in nearly all collectives of the run, by the times of arrival."""
    found = facts.derived(lateness_of_calls)
    late = found.late if isinstance(found, CallLateness) else None
    return late is not None and late.every == 1 and rank.number in late.ranks


def _latest(facts: Facts) -> LateRank | None:
    """The rank that the others wait for longest; None if none can be compared."""
    return find_late(facts.ranks)


def _longest(
    mine: Sequence[OpTime], theirs: Sequence[Sequence[OpTime]], more_ns: int
) -> tuple[OpTime | None, int]:
    """What takes a rank longest in addition, and how much longer; None if that explains little.

    Args:
        mine: Times of the rank.
        theirs: Times of the others.
        more_ns: How much longer the rank takes.
    """
    found = [(one, _more_ns(one, theirs)) for one in mine]
    one, ns = max(found, key=lambda pair: pair[1], default=(None, 0))
    return (one, ns) if ns >= max(_MAIN * more_ns, 1) else (None, 0)


def _more_ns(one: OpTime, theirs: Sequence[Sequence[OpTime]]) -> int:
    """How much longer something takes on a rank than on the others, their median, at least."""
    return round(one.self_ns - float(np.median([_at_most_ns(one, rank) for rank in theirs])))


def _at_most_ns(one: OpTime, theirs: Sequence[OpTime]) -> int:
    """Time of the same on another rank; if only longer ones are known, that of the shortest."""
    known = [
        other.self_ns for other in theirs if (other.name, other.phase) == (one.name, one.phase)
    ]
    if known:
        return sum(known)
    return theirs[-1].self_ns if len(theirs) >= MOST_OPERATIONS else 0
