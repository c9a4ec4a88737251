"""One pipeline stage takes longer than the others.

## What it means
The passes of one stage take longer than those of the other stages, for instance because the last
stage also computes the output layer and the loss.

## Why it costs
Every micro-batch has to pass through the slowest stage. The others wait for it.

## How it is measured
From the time that each stage spends in forward and backward passes: of n passes per step, n - 1
wait for the slowest stage, each for as long as its pass exceeds the mean of all stages. Ranks of
the same stage are averaged. Communication between stages is left out. Where the operations of all
ranks were recorded, the saving is that of a replay of their steps.

## Fix
Move layers from the slowest stage to the others. Plan fewer layers for the stage with the output
layer and the loss.

## Fix risk
None for the results. The memory that each stage needs changes.

## When it abstains
If only one rank is recorded, if the run has no pipeline, or if the passes of some stages are not
recorded.
"""

from __future__ import annotations

from stepwhy.analyse.ranks.stages import Stages, find_stages
from stepwhy.diagnose.ranks.shared.stages import MEGATRON, no_stages
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Fix, Rule

RULE = Rule(
    __name__,
    name="Pipeline stages of different length",
    found="Give every pipeline stage the same work",
    clear="All pipeline stages take about the same time",
    of_ranks=True,
    least_share=0.10,  # of the step; below it whole layers are too coarse to even out the stages
    least_saved=0.5,  # of the cost; layers can only be moved as a whole
    change="give every stage the mean work",
)


def diagnose(facts: Facts) -> Finding:
    """Judge the slowest stage."""
    stages = find_stages(facts.ranks)
    if stages is None:
        return no_stages(RULE, facts)
    cost, evidence = stages.imbalance_ns, _evidence(stages)
    if cost < RULE.least_share * stages.wall_ns:
        return RULE.nothing(evidence)
    edit = Edit("stage", "even", str(stages.longest))
    return RULE.finding(cost, evidence, _fix(facts, stages), edit=edit)


def _evidence(stages: Stages) -> tuple[Evidence, ...]:
    longest, mean_ns = f"stage {stages.longest}", round(stages.passes * stages.mean_ns)
    longest_ns = round(stages.passes * max(stages.pass_ns))
    return (
        Evidence("passes of the slowest stage per step", longest_ns, "ns", longest),
        Evidence("passes of a stage per step, mean of all stages", mean_ns, "ns"),
        Evidence("pipeline stages", len(stages.pass_ns), "count"),
        Evidence("forward passes per stage and step", stages.passes, "count"),
    )


def _fix(facts: Facts, stages: Stages) -> Fix:
    is_last = stages.longest == len(stages.pass_ns) - 1
    if not is_last:
        return RULE.fix("any")
    return RULE.fix("last-megatron" if facts.trace.meta.format in MEGATRON else "last")
