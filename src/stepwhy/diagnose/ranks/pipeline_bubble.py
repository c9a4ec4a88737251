"""Pipeline stages wait while the pipeline fills and drains.

## What it means
At the beginning of a step, later stages wait for the first micro-batch; at its end, earlier stages
wait for the last gradient. With few micro-batches per step, this bubble is a large part of the
step.

## Why it costs
With p stages and n passes per stage and step, each device is idle for (p - 1) / (n + p - 1) of the
step, even if all stages take equally long.

## How it is measured
The cost is the time that a pipeline of equal stages needs to fill and drain: (p - 1) forward and
backward passes. It is at most the time in which the stages were seen to wait (mean of all stages),
less the part that `stage-imbalance` explains. In an interleaved schedule, n counts the passes of
every model chunk. A stage whose record of a step ends early waits until that of the longest one
ends. If the number of stages is known, those that are not recorded are assumed to be like the
nearest recorded one.

## Fix
Run more micro-batches per step, or interleave: with twice as many model chunks per stage, filling
and draining takes half as long, but the stages exchange data more often.

## Fix risk
More micro-batches of the same size make the batch larger, which changes training.

## When it abstains
If the run has no pipeline, if the number of its stages is unknown, or if passes are not recorded.
"""

from __future__ import annotations

from msgspec.structs import replace

from stepwhy.analyse.lateness.rank_summary import summarise_rank
from stepwhy.analyse.ranks.rank_times import Rank
from stepwhy.analyse.ranks.stages import Stages, find_stages
from stepwhy.diagnose.ranks.shared.stages import MEGATRON, no_stages
from stepwhy.diagnose.shared.rule import Evidence, Facts, Finding, Rule
from stepwhy.trace import NULL

RULE = Rule(
    __name__,
    name="Filling and draining the pipeline",
    found="Shrink the pipeline bubble",
    clear="The pipeline bubble is a small part of the step",
    refines="exposed-communication",
    of_ranks=True,
    of_stages=True,
    usual_share=0.5,  # at most, by RULE.most_saved
    least_share=0.10,  # of the step; shorter bubbles are usual, and interleaving costs exchanges
    least_saved=0.0,  # of the cost; the exchanges of more model chunks may take all of the gain
    most_saved=0.5,  # of the cost, by twice as many model chunks
    change="twice as many model chunks per stage",
)


_OF_ALL = "share of the step in which a stage waits, mean of all stages"
_OF_THIS = "share of the step in which this stage waits, the only one recorded"


def diagnose(facts: Facts) -> Finding:
    """Judge the time in which the stages wait for each other."""
    stages = find_stages(_completed(facts)) if facts.ranks else _of_one(facts)
    if stages is None:
        return no_stages(RULE, facts)
    cost = min(stages.fill_ns, max(stages.idle_ns - stages.imbalance_ns, 0))
    evidence = (*_evidence(stages, of_all=bool(facts.ranks)), *_recorded(facts, stages))
    if cost < RULE.least_share * stages.wall_ns:
        return RULE.nothing(evidence)
    fix = RULE.fix("megatron" if facts.trace.meta.format in MEGATRON else "any")
    return RULE.finding(cost, evidence, fix)


def _completed(facts: Facts) -> list[Rank]:
    """The ranks, with a copy of the nearest recorded stage for each one that is missing."""
    recorded = {rank.stage: rank for rank in facts.ranks}
    missing = {stage for _, stage in facts.trace.meta.stages} - recorded.keys()
    if NULL in recorded:
        return list(facts.ranks)
    nearest = {one: min(recorded, key=lambda stage: abs(stage - one)) for one in sorted(missing)}
    return [
        *facts.ranks,
        *(replace(recorded[near], stage=one) for one, near in nearest.items()),
    ]


def _recorded(facts: Facts, stages: Stages) -> tuple[Evidence, ...]:
    """How many stages were recorded, if some are missing."""
    count = len({rank.stage for rank in facts.ranks})
    if not facts.ranks or count == len(stages.pass_ns):
        return ()
    return (Evidence("recorded stages, of which the others are assumed copies", count, "count"),)


def _of_one(facts: Facts) -> Stages | None:
    """The stages of a pipeline as if all were like the one that was recorded."""
    rank = facts.derived(summarise_rank)
    count = len({stage for _, stage in facts.trace.meta.stages})
    return None if rank is None else find_stages([replace(rank, stage=i) for i in range(count)])


def _evidence(stages: Stages, *, of_all: bool) -> tuple[Evidence, ...]:
    idle = stages.idle_ns / stages.wall_ns if stages.wall_ns else 0.0
    waits = _OF_ALL if of_all else _OF_THIS
    return (
        Evidence(waits, idle, "fraction"),
        Evidence("share that a pipeline of equal stages needs", stages.fill_share, "fraction"),
        Evidence("pipeline stages", len(stages.pass_ns), "count"),
        Evidence("forward passes per stage and step", stages.passes, "count"),
    )
