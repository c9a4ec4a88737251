"""A rank enters the step later than the others, although it takes no longer in it.

## What it means
A rank begins the step later than the others, although it does not take longer in it. The others
wait for it in the first collective operation.

## Why it costs
The wait for the last rank is part of the step of every other rank.

## How it is measured
Ranks leave the last collective operation of a step together. So a rank that spends the least time
in communication, and whose step is shorter than that of the rank that the report covers, entered it
later by the difference. Only durations are compared, so the clocks of the machines need not agree.
Ranks of a pipeline are compared within their stage.

Only ranks that describe mostly the same steps of the run are compared: those of another stretch may
take longer for another reason. Where the steps were logged, the rank must be faster in the steps
that both describe.

## Fix
Look for what the rank does between two steps: evaluation, logging, checkpoints, or a late start. If
only one step was recorded, record several: profilers that start at different times have the same
effect.

## Fix risk
None.

## When it abstains
If only one rank is recorded, if the ranks that are recorded all wait for others, or if some were
recorded in other steps of the run and the rest do not start late.
"""

from __future__ import annotations

from stepwhy.analyse.lateness.common_steps import describe_same, longer_ns
from stepwhy.analyse.ranks.rank_times import LateRank, Rank, find_late
from stepwhy.diagnose.ranks.shared.ranks import (
    compared,
    in_different_steps,
    late_ranks,
    others_may_be_late,
    peers,
    reported,
)
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Rule

RULE = Rule(
    __name__,
    name="Ranks that enter the step late",
    found="Let all ranks enter the step together",
    clear="All ranks enter the step together",
    of_ranks=True,
    least_share=0.10,  # of the step; below it the gain is less than the variation between steps
    least_saved=0.0,  # of the cost; the start of the profiler may have caused all of it
    change="remove the wait",
    edit=Edit("communication", "balanced"),
)


def diagnose(facts: Facts) -> Finding:
    """Judge the rank that waits least for the one that the report covers."""
    own, mine = reported(facts), peers(facts)
    if own is None or len(mine) < 2:
        return RULE.not_applicable("No two ranks do the same work: each is a pipeline stage.")
    alike = [rank for rank in mine if describe_same(own, rank)]
    found = _among(facts, own, alike)
    if found is not None and (found.verdict == "found" or len(alike) == len(mine)):
        return found
    other = next(rank for rank in mine if not describe_same(own, rank))
    return RULE.incomplete("common-steps", in_different_steps(own, other))


def _among(facts: Facts, own: Rank, alike: list[Rank]) -> Finding | None:
    """The finding on ranks that describe the same steps; None if that is one rank only."""
    late = find_late(alike)
    if late is None:
        return None
    # How much shorter the step of the late rank is, in the same steps as well.
    skew_ns, in_same_ns = own.wall_ns - late.rank.wall_ns, longer_ns(own, late.rank)
    skew_ns = skew_ns if in_same_ns is None else min(skew_ns, in_same_ns)
    cost = min(skew_ns, own.exchange_ns - late.rank.exchange_ns)
    evidence = (late_ranks(late), compared(facts, late.compared))
    if cost >= RULE.least_share * own.wall_ns:
        return RULE.finding(cost, (*evidence, *_evidence(own, late, skew_ns)), RULE.fix())
    if others_may_be_late(facts, late, RULE.least_share):
        return RULE.incomplete(
            "all-ranks", "All recorded ranks wait, perhaps for one that was not recorded.", evidence
        )
    return RULE.nothing(evidence)


def _evidence(own: Rank, late: LateRank, skew_ns: int) -> tuple[Evidence, ...]:
    waits_ns = own.exchange_ns - late.rank.exchange_ns
    return (
        Evidence(
            "how much later the latest rank enters the step",
            skew_ns,
            "ns",
            f"than rank {own.number}",
        ),
        Evidence("how much longer another rank waits", waits_ns, "ns", f"rank {own.number}"),
        Evidence("steps that were compared", len(late.rank.own_ns), "count"),
    )
