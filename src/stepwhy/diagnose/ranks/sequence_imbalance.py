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
each step takes equally long on all ranks, because they wait for each other. Where ranks wait for
cores, steps end at different times: then those of the same number must be twice as alike as
neighbouring ones, or more. If the traced steps show it, the evidence names the dimension of the
batches that differs, such as the sequence length, and its sizes.

On accelerators, it is measured by the collectives of all ranks: the rank whose collectives are
shortest in a step is the one that the others wait for. If another rank
is late in each step, the cost is what the median rank waits in the mean step, and the evidence
names what takes the late one longer. One rank that causes more than 75 % of the waiting is no such
case, and neither are fewer than four steps in which a rank is late by 10 % of the step.

## Fix
Let all ranks draw batches of about the same work in the same step. Sort the samples by length, form
groups of as many batches as there are ranks, and shuffle the groups in the same way on all ranks.
Or limit each batch by its number of tokens, not of samples.

## Fix risk
Samples of a step are then of similar lengths, which makes batches less random.

## When it abstains
If only one rank is recorded. Without collectives that show who is late: outside of PyTorch, and on
accelerators, whose work the CPU time does not show. `incomplete` if fewer than 10 of the same steps
are known of all ranks, or if accelerators wait in fewer than four recorded steps.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from stepwhy.analyse.input.varying_sizes import varying_size
from stepwhy.analyse.lateness.late_ranks import FEWEST_TURNS, lateness_of
from stepwhy.analyse.ranks.rank_times import Rank
from stepwhy.analyse.ranks.step_work import VaryingWork, find_varying
from stepwhy.diagnose.ranks.shared.ranks import NAMES, cause_of, exposed_ns, peers, reported, turns
from stepwhy.diagnose.shared.measure import on_scale
from stepwhy.diagnose.shared.program import is_pytorch
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Rule, saving

RULE = Rule(
    __name__,
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
_MOST_SIZES = 8
WAITS_FOR_CORES = 1 / 3  # of the cost; as for a rank that is late


def diagnose(facts: Facts) -> Finding:
    """Judge how much of the work of a step is of another rank in each step."""
    own, ranks = reported(facts), peers(facts)
    if own is None or len(ranks) < 2:
        return RULE.not_applicable("No two ranks do the same work: each is a pipeline stage.")
    if not any(rank.on_cpu for rank in ranks) and facts.derived(lateness_of):
        return _by_waits(facts) or _without_turns(facts)
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
    least = 0.0 if any(_waits_for_cores(rank, cost) for rank in ranks) else LEAST_SAVED
    gain = saving("give all ranks the same work", least * cost, cost)
    evidence = *evidence, *_sizes(facts)
    return RULE.finding(
        cost, evidence, RULE.fix("batches"), gain, Edit("communication", "balanced")
    )


def _sizes(facts: Facts) -> Iterator[Evidence]:
    """Which dimension of the batches differs from step to step, on the rank that is described."""
    found = varying_size(facts)
    if found is not None:
        sizes = ", ".join(map(str, found.sizes[:_MOST_SIZES]))
        what = f"size of dimension {found.dimension} of its batches in the traced steps"
        yield Evidence(what, sizes, "", found.operation)


def _waits_for_cores(rank: Rank, cost_ns: int) -> bool:
    """Whether a rank often waits for cores, for as long as matters for a cost."""
    known = [ns for ns in (rank.core_wait_ns, rank.core_waits_ns) if ns is not None]
    return rank.contended and (not known or max(known) >= WAITS_FOR_CORES * cost_ns)


def _by_waits(facts: Facts) -> Finding | None:
    """The finding on ranks that take turns in being late, by what the others wait; None if not."""
    pair = turns(facts)
    if pair is None:
        return None
    compared, late = pair
    cost = min(on_scale(facts, late.cost_ns), exposed_ns(facts, compared.peers.numbers))
    if cost < SHARE * facts.wall_ns:
        return None
    cause = cause_of(late.excess_ns)
    evidence = (
        Evidence("how long the others wait for the last rank, mean of all steps", cost, "ns"),
        Evidence("what takes the last rank longer", NAMES[cause], ""),
        Evidence("steps in which a rank is late", late.long_steps, "count",
                 f"of {compared.steps}"),
        *(
            Evidence("steps in which it is late", count, "count", f"rank {number}")
            for number, count in zip(late.ranks, late.late_steps, strict=True)
        ),
        Evidence("ranks that were compared", len(compared.peers.numbers), "count"),
    )  # fmt: skip
    gain = saving("give all ranks the same work", LEAST_SAVED * late.even_ns, late.even_ns)
    by_length = "batches" if is_pytorch(facts) else "without-loader"
    fix = RULE.fix(by_length if cause == "compute" else cause)
    found = RULE.finding(cost, evidence, fix, gain, Edit("communication", "balanced"))
    return found if cause == "compute" else replace(found, title=_TITLES[cause])


def _without_turns(facts: Facts) -> Finding:
    """The finding if ranks are not known to take turns, by how long they wait for each other."""
    longest = facts.derived(lateness_of)[0]
    evidence = (
        Evidence("how long ranks wait for each other, mean of all", longest.mean_wait_ns, "ns"),
        Evidence("ranks that were compared", len(longest.peers.numbers), "count"),
    )
    least_ns = SHARE * facts.wall_ns
    if not longest.peers.complete and exposed_ns(facts, longest.peers.numbers) >= least_ns:
        return RULE.incomplete(
            "all-ranks", "Ranks wait, perhaps for others that were not recorded.", evidence
        )
    is_long = on_scale(facts, longest.mean_wait_ns) >= least_ns
    if is_long and longest.late is None and longest.steps < FEWEST_TURNS:
        return RULE.incomplete(
            "enough-steps", "Too few steps show whether ranks take turns in being late.", evidence
        )
    return RULE.nothing(evidence)


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


_TITLES = {
    "input": "Let no rank wait for its input: another one does in each step",
    "copies": "Let no rank copy longer than the others: another one does in each step",
    "host": "Let all ranks pause in the same steps: the host of another one is late in each step",
    "unknown": "Find out what delays another rank in each step",
}
