"""Evidence of diagnoses that compare the ranks of a run."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from stepwhy.analyse.facts import Facts
from stepwhy.analyse.lateness.common_steps import described
from stepwhy.analyse.lateness.late_ranks import Late, Lateness, Turns, lateness_of
from stepwhy.analyse.ranks.rank_times import LateRank, Rank
from stepwhy.result import Evidence

CAUSES = {
    "compute": ("compute",),
    "input": ("input_wait",),
    "copies": ("transfer",),
    "host": ("dispatch", "python", "sync", "compile", "storage"),
    "unknown": ("unexplained",),
}
"""Categories of the breakdown by what a rank does longer than the others."""

NAMES = {
    "compute": "computation",
    "input": "waiting for input",
    "copies": "copies between host and device",
    "host": "code on the host",
    "unknown": "time without evidence",
}
"""The causes in words."""


def cause_of(excess_ns: Mapping[str, int]) -> str:
    """What a rank does longer than the others: a key of `CAUSES`.

    Args:
        excess_ns: How much longer it spends in each category, or less; empty if unknown.
    """
    if not excess_ns:
        return "unknown"
    return max(CAUSES, key=lambda cause: sum(excess_ns[name] for name in CAUSES[cause]))


def persistent(facts: Facts) -> tuple[Lateness, Late] | None:
    """The ranks that are late too often for chance and cost most; None if there are none."""
    found = [(one, one.late) for one in facts.derived(lateness_of) if one.late is not None]
    return max(found, key=lambda pair: pair[1].cost_ns, default=None)


def turns(facts: Facts) -> tuple[Lateness, Turns] | None:
    """The ranks that take turns in being late and cost most; None if there are none."""
    found = [(one, one.turns) for one in facts.derived(lateness_of) if one.turns is not None]
    return max(found, key=lambda pair: pair[1].cost_ns, default=None)


def exposed_ns(facts: Facts, numbers: Collection[int]) -> int:
    """Time of the step in which ranks only exchange data or wait, the median of them, ns.

    Args:
        facts: Facts of a rank.
        numbers: The ranks.
    """
    times = [rank.exchange_ns for rank in facts.ranks if rank.number in numbers]
    return round(float(np.median(times))) if times else 0


def reported(facts: Facts) -> Rank | None:
    """The summary of the rank that the facts are of, None if there is none."""
    return next((r for r in facts.ranks if r.number == facts.trace.meta.rank), None)


def peers(facts: Facts) -> list[Rank]:
    """The ranks that do the same work as the one that the facts are of, itself included."""
    own = reported(facts)
    return [] if own is None else [rank for rank in facts.ranks if rank.stage == own.stage]


def late_ranks(late: LateRank) -> Evidence:
    """Which ranks are about as late as the last one, the last one first."""
    numbers = ", ".join(str(number) for number in late.together)
    return Evidence("late ranks, which wait least for the others", numbers, "")


def compared(facts: Facts, count: int) -> Evidence:
    """How many ranks were compared, of how many in the job."""
    world = facts.trace.meta.world_size
    of = f"of {world:,} in the job" if world > len(facts.ranks) else ""
    return Evidence("ranks that were compared", count, "count", of)


def others_may_be_late(facts: Facts, late: LateRank, share: float) -> bool:
    """Whether all recorded ranks wait, so that they may wait for one that was not recorded.

    Args:
        facts: Facts of a rank.
        late: The recorded rank that waits least.
        share: Share of the step from which on it waits.
    """
    is_part = facts.trace.meta.world_size > len(facts.ranks)
    return is_part and late.rank.exchange_ns >= share * late.rank.wall_ns


def in_different_steps(own: Rank, other: Rank) -> str:
    """Why two ranks that describe different steps of the run cannot be compared, in words.

    Args:
        own: A rank.
        other: The other one.
    """
    return (
        f"The ranks were recorded in different steps of the run: {_steps(own)}, {_steps(other)}. "
        "Record the same steps of all ranks."
    )


def _steps(rank: Rank) -> str:
    found = described(rank)
    if found is None:
        return f"unknown ones of rank {rank.number}"
    first = found.first + (found.numbering == "log")  # people count logged steps from 1
    return f"steps {first:,} to {first + found.stop - found.first - 1:,} of rank {rank.number}"
