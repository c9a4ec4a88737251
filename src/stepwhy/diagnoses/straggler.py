"""All ranks wait for one that needs longer.

## What it means
One rank computes longer than the others, waits for its input, or runs more code on the host. In
every step, the others wait for it in a collective operation.

## Why it costs
Ranks that synchronise take as long as the slowest one: the other devices are idle meanwhile.

## How it is measured
Each rank's step is split as always. The rank that spends least time in communication is the one
that the others wait for; it is a straggler if it also spends more time on everything else than the
median of the others. The difference is the cost, and the category that differs most says in what.
Only durations are compared, so the clocks of the machines need not agree. Ranks of a pipeline are
compared within their stage.

The difference must exceed three standard errors of the recorded steps, or the rank must need 10 %
more CPU time than the others. Only their CPU time counts where the ranks wait for cores, and for
computation on a CPU.

## Fix
If the rank computes longer, give all ranks the same work, and compare its device with the others.
If its input is late, compare its data and its storage. If its host is busy, spread or postpone what
only this rank does: logging, evaluation, checkpoints.

## Fix risk
Another distribution of the data changes the order of the samples.

## When it abstains
If only one rank is recorded. `incomplete` if several ranks of the job were not recorded, and all
that were recorded wait; or if the late rank only waits longer for cores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.diagnoses.shared.ranks import compared, late_ranks, others_may_be_late
from stepwhy.diagnoses.shared.rule import Rule, saving
from stepwhy.findings import Evidence, Fix
from stepwhy.passes.ranks import find_late

if TYPE_CHECKING:
    from stepwhy.findings import Finding
    from stepwhy.passes.facts import Facts
    from stepwhy.passes.ranks import LateRank

RULE = Rule(
    id="straggler",
    family="ranks",
    name="A rank that the others wait for",
    found="Speed up the rank that the others wait for",
    clear="No rank makes the others wait by its work",
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
    is_long = cost >= SHARE * late.rank.wall_ns
    if is_long and late.is_certain:
        gain = saving("remove the difference", min(late.least_ns, cost), cost)
        return RULE.finding(cost, evidence, _FIXES[_group(late)], gain)
    if is_long and late.rank.contended:
        return RULE.incomplete("The ranks wait for cores that other threads use.", evidence)
    if others_may_be_late(facts, late, SHARE):
        return RULE.incomplete(
            "All recorded ranks wait, perhaps for one that is not here.", evidence
        )
    return RULE.nothing(evidence)


def _evidence(facts: Facts, late: LateRank) -> tuple[Evidence, ...]:
    return (
        late_ranks(late),
        Evidence("time that it takes longer, without waiting", late.work_ns, "ns"),
        Evidence("what it does longer", _NAMES[_group(late)], "", _line(late)),
        Evidence("time that the others wait longer", late.waits_ns, "ns"),
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
    "Compare what this rank computes with another one: batch size, sequence lengths, padding. If "
    "the work is the same, compare the devices: clock, temperature, power limit, other programs.",
    "",
    "unknown",
)
_INPUT = Fix(
    "Compare the input of this rank with another one: its part of the data, number of workers, "
    "storage, and cores of the machine.",
    "",
    "none",
)
_COPIES = Fix(
    "Compare the link between host and device of this rank with another one, and what it copies.",
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
