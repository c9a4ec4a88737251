"""Evidence of diagnoses that compare the ranks of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.findings import Evidence

if TYPE_CHECKING:
    from stepwhy.passes.facts import Facts
    from stepwhy.passes.ranks import LateRank, Rank


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


def compared(facts: Facts, late: LateRank) -> Evidence:
    """How many ranks were compared, of how many in the job."""
    world = facts.trace.meta.world_size
    of = f"of {world:,} in the job" if world > len(facts.ranks) else ""
    return Evidence("ranks that were compared", late.compared, "count", of)


def others_may_be_late(facts: Facts, late: LateRank, share: float) -> bool:
    """Whether all recorded ranks wait, so that they may wait for one that was not recorded.

    Args:
        facts: Facts of a rank.
        late: The recorded rank that waits least.
        share: Share of the step from which on it waits.
    """
    is_part = facts.trace.meta.world_size > len(facts.ranks)
    return is_part and late.rank.exchange_ns >= share * late.rank.wall_ns
