"""Batches need different work on each rank, so that in every step some rank waits for another.

## What it means
Each rank draws its own batches, and these differ: sequences of other lengths, images of other
sizes, graphs of other numbers of nodes. No rank is always the last one. They take turns.

## Why it costs
A step takes as long as the largest batch of all ranks. The more ranks, the larger it is.

## How it is measured
stepwhy compares the CPU time of all ranks step by step; a rank that waits for another one uses
none. For each step it takes the maximum over the ranks, and averages these maxima over the steps.
If the same rank were the slowest in all steps, this average would be that rank's own mean; such a
rank is a `straggler`. If the slowest rank changes, the average is higher. The cost is the
difference, converted from CPU time to the time of the step. Two conditions apply: the interquartile
range of a rank's CPU time is at least 20 % of its median, so that a few pauses do not count, and
each step takes equally long on all ranks, because they wait for each other.

## Fix
Let all ranks draw batches of about the same work in the same step. Sort the samples by length, form
groups of as many batches as there are ranks, and shuffle the groups in the same way on all ranks.
Or limit each batch by its number of tokens, not of samples.

## Fix risk
Samples of a step are then of similar lengths, which makes batches less random.

## When it abstains
If only one rank is recorded, outside of PyTorch, and on accelerators, whose work the CPU time does
not show. `incomplete` if fewer than 10 of the same steps are known of all ranks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.diagnoses.shared.program import is_pytorch
from stepwhy.diagnoses.shared.ranks import peers, reported
from stepwhy.diagnoses.shared.rule import Rule, saving
from stepwhy.findings import Edit, Evidence, Fix
from stepwhy.passes.step_work import find_varying

if TYPE_CHECKING:
    from stepwhy.findings import Finding
    from stepwhy.passes.facts import Facts
    from stepwhy.passes.step_work import VaryingWork

RULE = Rule(
    id="sequence-imbalance",
    family="ranks",
    name="Batches of different work",
    found="Give all ranks batches of the same work in each step",
    clear="Batches of a step need the same work on all ranks",
    of_ranks=True,
)

SHARE = 0.10  # of the step; below it the gain is less than the variation between steps
SPREAD = 0.20  # of the median; CPU time of equal steps varies by less, even on a busy machine
# Of the cost; batches of one group still differ. Where ranks wait for cores, a rank that need not
# wait for another one may wait longer for a core.
LEAST_SAVED = 0.5


def diagnose(facts: Facts) -> Finding:
    """Judge how much of the work of a step is of another rank in each step."""
    own, ranks = reported(facts), peers(facts)
    if own is None or len(ranks) < 2:
        return RULE.not_applicable("No two ranks do the same work: each is a pipeline stage.")
    if not is_pytorch(facts) or not all(rank.on_cpu for rank in ranks):
        return RULE.no_data(
            "step-work", "The work of each step is only known of PyTorch on the CPU."
        )
    work = find_varying([rank.log for rank in ranks])
    if work is None:
        return RULE.incomplete(
            "enough-steps", "Too few steps are known of all ranks, or they do not match."
        )
    cost = round(work.imbalance * own.wall_ns)
    evidence = _evidence(work, [rank.number for rank in ranks])
    if cost < SHARE * own.wall_ns or work.spread < SPREAD:
        return RULE.nothing(evidence)
    least = 0.0 if any(rank.contended for rank in ranks) else LEAST_SAVED
    gain = saving("give all ranks the same work", least * cost, cost)
    return RULE.finding(cost, evidence, _FIX, gain, Edit("communication", "balanced"))


def _evidence(work: VaryingWork, numbers: list[int]) -> tuple[Evidence, ...]:
    found = [
        Evidence("CPU time of the rank that is slowest in each step, mean of all steps",
                 work.longest_ns, "ns"),
        Evidence("CPU time of the rank that is slowest overall, mean of all steps",
                 work.longest_ns - work.imbalance_ns, "ns"),
        Evidence("variation of the middle half of the steps on a rank", work.spread, "fraction"),
        Evidence("steps that were compared", work.steps, "count"),
    ]  # fmt: skip
    latest = sorted(zip(work.longest, numbers, strict=True), reverse=True)[:3]
    found.extend(
        Evidence("steps in which it is the slowest", share, "fraction", f"rank {number}")
        for share, number in latest
    )
    return tuple(found)


_FIX = Fix(
    "Sort the samples by length, form groups of one batch for each rank, and shuffle the groups in "
    "the same way on all ranks. Pass the batches to DataLoader(batch_sampler=...), new ones in "
    "each epoch. Or limit each batch by its number of tokens, not of samples.",
    "def batches(lengths, batch_size, rank, ranks, epoch):\n"
    "    order = sorted(range(len(lengths)), key=lengths.__getitem__)\n"
    "    size = batch_size * ranks\n"
    "    groups = [order[i : i + size] for i in range(0, len(order), size)]\n"
    "    groups = [group for group in groups if len(group) == size]\n"
    "    random.Random(epoch).shuffle(groups)   # alike on all ranks\n"
    "    return [group[rank::ranks] for group in groups]",
    "unknown",
)
