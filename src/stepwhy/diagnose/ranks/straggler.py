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

With the collectives of all ranks, a rank that is late in some steps only is found as well, such as
in every tenth one: what each rank waits is summed over its process groups, and compared step by
step. What a collective takes longer than on the rank where it is shortest is a wait; that rank
arrived last. A rank is late in a step if the others wait for 10 % of a step, and at least for half
of what they wait for the last one. It is a straggler if it is late in more steps than ranks that
take turns at random would be, with a probability of 1 % (binomial test, corrected for the number of
ranks; late steps at equal distances are less likely), and if it spends more time outside of
communication. Broadcasts, sending and receiving show no waits.

The difference must exceed three standard errors of the recorded steps, or the rank must need 10 %
more CPU time than the others. Where ranks compute on a CPU, only the CPU time counts. Where the
rank often waits for a core, such waits must explain less than a third of the difference: those of
the thread that drives it in the recorded steps, and those of all its threads in the run. Ranks that
describe other steps of the run, which take longer or shorter, are left out. A rank is no straggler
if the ranks take turns in computing longest, by more than one does on average
(`sequence-imbalance`).

Where steps were timed, but none was traced, stack samples of the driving threads decide: the late
rank is in lines of the program, outside of the framework, more often than the median of the others,
which wait within a call of the framework. The difference must exceed 10 % of the step by three
standard errors; CPU time of the thread must explain half of it, or waits for cores less than a
third.

## Fix
If the rank computes longer, give all ranks the same work, and compare its device with the others.
If its input is late, compare its data and its storage. If its host is busy, spread out or postpone
what only this rank does: logging, evaluation, checkpoints.

## Fix risk
Distributing the data differently changes the order of the samples.

## When it abstains
If only one rank is recorded. `incomplete` if no step was traced, and no rank is in the program more
often than the others; if all recorded ranks wait and others of the job were not
recorded, or if waits for cores explain a third or more of the difference. Where no rank is late, it
is `incomplete` if some ranks wait for cores longer than others by 10 % of the step, which can hide
a late one, or if some were recorded in other steps of the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from stepwhy.analyse.lateness.common_steps import describe_same
from stepwhy.analyse.lateness.late_work import late_work
from stepwhy.analyse.ranks.rank_times import MORE_WORK, LateRank, Rank, cores_explain, find_late
from stepwhy.analyse.ranks.step_work import find_varying
from stepwhy.analyse.ranks.untraced_ranks import find_late_by_samples
from stepwhy.diagnose.ranks.shared.ranks import (
    NAMES,
    cause_of,
    compared,
    exposed_ns,
    in_different_steps,
    late_ranks,
    others_may_be_late,
    persistent,
    reported,
    turns,
)
from stepwhy.diagnose.shared.measure import on_scale
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Fix, Rule, saving, untimed

RULE = Rule(
    __name__,
    name="A rank that the others wait for",
    found="Speed up the rank that the others wait for",
    clear="No rank keeps the others waiting",
    of_ranks=True,
    of_untraced=True,
)

_HIDDEN = "Some ranks wait longer for cores than others, which can hide a late rank."
SHARE = 0.10  # of the step; below it the gain is less than the variation between steps


def diagnose(facts: Facts) -> Finding:
    """Judge the rank that waits least for the others."""
    if len(facts.ranks) < 2:
        return _by_samples(facts)
    ranks = _comparable(facts)
    late = find_late(ranks)
    if late is None:
        return _without_peers(facts, ranks)
    cost = min(late.work_ns, late.waits_ns)
    evidence = _evidence(facts, late)
    is_long = cost >= SHARE * late.rank.wall_ns and not _take_turns(facts, late)
    found = _in_some_steps(facts)
    if is_long and late.is_certain:
        gain = saving("remove the difference", min(late.least_ns, cost), cost)
        fix = _fix(cause_of(late.excess_ns))
        return RULE.finding(cost, evidence, fix, gain, Edit("communication", "balanced"))
    if found is not None:
        return found
    if is_long and late.by_cores:
        return RULE.incomplete(
            "quiet-machine", "Waits for cores may be why the rank is late.", evidence
        )
    if others_may_be_late(facts, late, SHARE):
        return RULE.incomplete(
            "all-ranks", "All recorded ranks wait, perhaps for one that was not recorded.", evidence
        )
    if _may_be_hidden(ranks, late):
        return RULE.incomplete("quiet-machine", _HIDDEN, evidence)
    return _of_other_steps(facts, ranks) or RULE.nothing(evidence)


def _by_samples(facts: Facts) -> Finding:
    """What stack samples say of ranks whose steps were timed, but not traced."""
    late = find_late_by_samples(facts.untraced)
    if late is None or late.least_ns < SHARE * late.rank.wall_ns:
        return untimed(RULE, facts) or RULE.incomplete("steps", "No step of the ranks was traced.")
    evidence = (
        Evidence("late ranks, which wait least for the others", str(late.rank.number), ""),
        Evidence(
            "samples of it outside the framework", late.rank.share, "fraction", late.rank.line
        ),
        Evidence("the same on the other ranks, median", late.others_share, "fraction"),
        Evidence("how much longer it is there, per step", late.more_ns, "ns"),
        compared(facts, late.compared),
    )
    if late.by_cores:
        return RULE.incomplete(
            "quiet-machine", "Waits for cores may be why the rank is late.", evidence
        )
    gain = saving("remove the difference", late.least_ns, late.more_ns)
    return RULE.finding(
        late.more_ns, evidence, RULE.fix("alone"), gain, Edit("communication", "balanced")
    )


def _may_be_hidden(ranks: Sequence[Rank], late: LateRank) -> bool:
    """Whether ranks may take equally long only because some of them wait longer for cores."""
    peers = [rank for rank in ranks if rank.stage == late.rank.stage]
    waits_ns = [rank.core_wait_ns for rank in peers if rank.core_wait_ns is not None]
    if len(waits_ns) < 2 or not any(rank.contended for rank in peers):
        return False
    return max(waits_ns) - min(waits_ns) >= SHARE * late.rank.wall_ns


def _comparable(facts: Facts) -> list[Rank]:
    """The ranks that describe the same steps as this one, or steps that take equally long."""
    own = reported(facts)
    return [
        rank
        for rank in facts.ranks
        if own is None
        or describe_same(own, rank)
        or abs(own.wall_ns - rank.wall_ns) < SHARE * own.wall_ns
    ]


def _without_peers(facts: Facts, ranks: Sequence[Rank]) -> Finding:
    """What can be said where no two of these ranks can be compared by the mean step."""
    if find_late(facts.ranks) is None:
        return RULE.not_applicable("No two ranks do the same work: each is a pipeline stage.")
    found = _in_some_steps(facts) or _of_other_steps(facts, ranks)
    return RULE.nothing() if found is None else found


def _of_other_steps(facts: Facts, ranks: Sequence[Rank]) -> Finding | None:
    """The abstention where some ranks describe other steps; None if all can be compared."""
    own, known = reported(facts), {rank.number for rank in ranks}
    other = next((rank for rank in facts.ranks if rank.number not in known), None)
    if own is None or other is None:
        return None
    return RULE.incomplete("common-steps", in_different_steps(own, other))


def _take_turns(facts: Facts, late: LateRank) -> bool:
    """Whether another rank is late in each step, or computes longest by more than on average."""
    if not late.rank.on_cpu:
        return persistent(facts) is None and turns(facts) is not None
    if cause_of(late.excess_ns) != "compute":
        return False
    work = find_varying([rank.log for rank in facts.ranks if rank.stage == late.rank.stage])
    if work is None or work.imbalance_ns <= work.lead_ns:
        return False
    return work.imbalance >= SHARE


def _evidence(facts: Facts, late: LateRank) -> tuple[Evidence, ...]:
    cause = cause_of(late.excess_ns)
    return (
        late_ranks(late),
        Evidence("how much longer it takes, without waiting", late.work_ns, "ns"),
        *_doing(facts, late.rank, cause),
        *_core_wait(late),
        Evidence("how much longer the others wait", late.waits_ns, "ns"),
        *_how_often(facts, late.rank.number),
        compared(facts, late.compared),
    )


def _core_wait(late: LateRank) -> Iterator[Evidence]:
    """How much of it are waits for cores, if the rank often waits for one."""
    if late.rank.contended and late.core_wait_ns is not None:
        yield Evidence("of which it waits for cores, at most", late.core_wait_ns, "ns")


def _in_some_steps(facts: Facts) -> Finding | None:
    """The finding on ranks that are late in more steps than by chance, if in most or in a few."""
    pair = persistent(facts)
    if pair is None:
        return None
    peers, late = pair[0].peers, pair[1]
    others = set(peers.numbers).difference(late.ranks)
    rank = next(rank for rank in facts.ranks if rank.number == late.ranks[0])
    cost = min(on_scale(facts, late.cost_ns), exposed_ns(facts, others))
    cause = cause_of(late.excess_ns)
    if cost < SHARE * facts.wall_ns or _is_noise(facts, rank, cause):
        return None
    if cores_explain(rank, [r for r in facts.ranks if r.number in others], late.cost_ns):
        return None
    share = len(others) / len(peers.numbers)
    gain = saving("remove the difference", share * cost, cost)
    ranks = ", ".join(map(str, late.ranks))
    evidence = (
        Evidence("late ranks, which wait least for the others", ranks, ""),
        *_how_often(facts, rank.number),
        Evidence("how late it is in these steps", late.in_late_steps_ns, "ns"),
        *_doing(facts, rank, cause),
        Evidence("how much longer the others wait, mean of all steps", cost, "ns"),
        compared(facts, len(peers.numbers)),
    )
    return RULE.finding(cost, evidence, _fix(cause), gain, Edit("communication", "balanced"))


def _is_noise(facts: Facts, rank: Rank, cause: str) -> bool:
    """Whether a rank computes longer on a CPU, although it needs no more CPU time than others."""
    known = [r.cpu_ns for r in facts.ranks if r.cpu_ns and r.number != rank.number]
    if cause != "compute" or not rank.on_cpu or not rank.cpu_ns or not known:
        return False
    return rank.cpu_ns < MORE_WORK * float(np.median(known))


def _how_often(facts: Facts, number: int) -> tuple[Evidence, ...]:
    """In how many steps a rank is late, if in more than by chance."""
    pair = persistent(facts)
    if pair is None or number not in pair[1].ranks:
        return ()
    compared_steps, late = pair[0].steps, pair[1]
    count = late.late_steps[late.ranks.index(number)]
    every = "" if late.every in {None, 1} else f", every {late.every} steps"
    return (Evidence("steps in which it is late", count, "count", f"of {compared_steps}{every}"),)


def symptoms(facts: Facts) -> frozenset[str]:
    """Findings on the late rank that show what it does longer than the others, if it is late."""
    late = find_late(_comparable(facts))
    if late is None or late.rank.number != facts.trace.meta.rank:
        return frozenset()
    shown = {"host": "python-overhead", "unknown": "wall-device-gap"}.get(cause_of(late.excess_ns))
    return frozenset(() if shown is None else (shown,))


def _doing(facts: Facts, rank: Rank, cause: str) -> Iterator[Evidence]:
    """What the rank does longer than the others, as far as its own trace shows it."""
    work = late_work(facts, rank)
    line = rank.line if cause in {"host", "unknown"} else ""
    yield Evidence("what takes it longer", NAMES[cause], "", line or (work.line if work else ""))
    if work is not None and work.operation:
        where = " ".join(filter(None, (work.operation, work.phase)))
        yield Evidence("operation that takes it longer, mean step", work.operation_ns, "ns", where)


def _fix(cause: str) -> Fix:
    return RULE.fix(cause if cause in {"compute", "input", "copies"} else "alone")
