"""All ranks wait for one that takes longer.

## What it means
In every step, the others wait in a collective operation for one rank that computes longer than they
do, waits for its input, or runs more code on the host.

## Why it costs
Ranks that synchronise take as long as the slowest one: meanwhile, the devices of the others are
idle.

## How it is measured
The step of each rank is divided into the categories of the breakdown. The rank that spends the
least time in communication is the one that the others wait for; it is a straggler if it also spends
more time on everything else than the median of the others. The difference is the cost, and the
evidence names the category that differs most. Only durations are compared, so the clocks of the
machines need not agree. Ranks of a pipeline are compared within their stage.

The difference must exceed three standard errors of the recorded steps, or the rank must need 10 %
more CPU time than the others. Where the ranks wait for cores, or compute on a CPU, only the CPU
time counts. A rank is no straggler if the ranks take turns in computing longest, by more than one
does on average (`sequence-imbalance`).

## Fix
If the rank computes longer, give all ranks the same work, and compare its device with the others.
If its input is late, compare its data and its storage. If its host is busy, spread out or postpone
what only this rank does: logging, evaluation, checkpoints.

## Fix risk
Distributing the data differently changes the order of the samples.

## When it abstains
If only one rank is recorded. `incomplete` if all recorded ranks wait and others of the job were not
recorded, or if the late rank only waits longer for cores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.diagnoses.shared.ranks import compared, late_ranks, others_may_be_late
from stepwhy.diagnoses.shared.rule import Rule, saving
from stepwhy.findings import Edit, Evidence, Fix
from stepwhy.passes.ranks import find_late
from stepwhy.passes.step_work import find_varying

if TYPE_CHECKING:
    from stepwhy.findings import Finding
    from stepwhy.passes.facts import Facts
    from stepwhy.passes.ranks import LateRank

RULE = Rule(
    id="straggler",
    family="ranks",
    name="A rank that the others wait for",
    found="Speed up the rank that the others wait for",
    clear="No rank keeps the others waiting",
    of_ranks=True,
)

SHARE = 0.10  # of the step; below it the gain is less than the variation between steps


def diagnose(facts: Facts) -> Finding:
    """Judge the rank that waits least for the others."""
    late = find_late(facts.ranks)
    if late is None:
        return RULE.not_applicable("No two ranks do the same work: each is a pipeline stage.")
    cost = min(late.work_ns, late.waits_ns)
    evidence = _evidence(facts, late)
    is_long = cost >= SHARE * late.rank.wall_ns and not _take_turns(facts, late)
    if is_long and late.is_certain:
        gain = saving("remove the difference", min(late.least_ns, cost), cost)
        return RULE.finding(
            cost, evidence, _FIXES[_group(late)], gain, Edit("communication", "balanced")
        )
    if is_long and late.rank.contended:
        return RULE.incomplete(
            "quiet-machine", "The ranks wait for cores that other threads use.", evidence
        )
    if others_may_be_late(facts, late, SHARE):
        return RULE.incomplete(
            "all-ranks", "All recorded ranks wait, perhaps for one that was not recorded.", evidence
        )
    return RULE.nothing(evidence)


def _take_turns(facts: Facts, late: LateRank) -> bool:
    """Whether another rank computes longest in each step, by more than one does on average."""
    if _group(late) != "compute" or not late.rank.on_cpu:
        return False
    work = find_varying([rank.log for rank in facts.ranks if rank.stage == late.rank.stage])
    if work is None or work.imbalance_ns <= work.lead_ns:
        return False
    return work.imbalance >= SHARE


def _evidence(facts: Facts, late: LateRank) -> tuple[Evidence, ...]:
    return (
        late_ranks(late),
        Evidence("how much longer it takes, without waiting", late.work_ns, "ns"),
        Evidence("what takes it longer", _NAMES[_group(late)], "", _line(late)),
        Evidence("how much longer the others wait", late.waits_ns, "ns"),
        compared(facts, late),
    )


def symptoms(facts: Facts) -> frozenset[str]:
    """Findings on the late rank that show what it does longer than the others, if it is late."""
    late = find_late(facts.ranks)
    is_own = late is not None and late.rank.number == facts.trace.meta.rank
    return frozenset({"python-overhead"} if late and is_own and _group(late) == "host" else ())


_HOST = ("dispatch", "python", "sync", "compile", "storage")
_GROUPS = {"compute": ("compute",), "input": ("input_wait",), "copies": ("transfer",)} | {
    "host": _HOST,
    "unknown": ("unexplained",),
}


def _group(late: LateRank) -> str:
    """What the rank does longer than the others."""
    return max(_GROUPS, key=lambda group: sum(late.excess_ns[name] for name in _GROUPS[group]))


def _line(late: LateRank) -> str:
    """The line of the program that the rank is mostly in, where its host takes longer."""
    return late.rank.line if _group(late) in {"host", "unknown"} else ""


_COMPUTE = Fix(
    "Compare the work of this rank with that of another: batch size, sequence lengths, padding. If "
    "it is the same, compare the devices: clock, temperature, power limit, other programs.",
    "",
    "unknown",
)
_INPUT = Fix(
    "Compare the input of this rank with that of another: its share of the data, number of "
    "workers, storage, and cores of the machine.",
    "",
    "none",
)
_COPIES = Fix(
    "Compare the link between host and device of this rank, and what it copies, with another rank.",
    "",
    "none",
)
_ALONE = Fix(
    "Look for what only this rank does: logging, evaluation, checkpoints, monitoring. Do it less "
    "often, after the step, or in a thread. If it does the same as the others, compare the cores "
    "that it may use.",
    "",
    "none",
)
_NAMES = {
    "compute": "computation",
    "input": "waiting for input",
    "copies": "copies between host and device",
    "host": "code on the host",
    "unknown": "time without evidence",
}
_FIXES = {
    "compute": _COMPUTE,
    "input": _INPUT,
    "copies": _COPIES,
    "host": _ALONE,
    "unknown": _ALONE,
}
