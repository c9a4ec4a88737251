"""A rank enters the collectives of its group later than the others, by lists of calls alone.

## What it means
Again and again, the others have entered a collective, such as an all-reduce, and wait for the same
rank: in all of them, or at a regular distance, such as every tenth.

## Why it costs
A collective ends on no rank before the last one has entered it, so that the devices of the others
are idle until then.

## How it is measured
Records that list collectives, such as dumps of PyTorch's flight recorder and files of NCCL
Inspector, show no steps. `stepwhy run` notes when each rank entered its latest 2,000 ones, far more
than its traced steps have; where it was started once per rank, it does not know that their clocks
agree. So the collectives of a process group are compared one by one: those that
end together on all ranks, and that all ranks have ended. What one takes longer than on the rank
where it is shortest is a wait; that rank was last. Where durations are not recorded, as with Gloo,
the times at which ranks enter a collective are compared, if their clocks do not contradict each
other: no rank may enter a collective before all have entered the one before.

A rank is late if it is last in more collectives than ranks that take turns at random would be, with
a probability of 1 % (binomial test, as for `straggler`), and if the others wait for it for 10 % of
the time from one collective to the next, on average; for 25 % where waits for cores may explain a
third of that or more.
Where the steps are recorded, that share of the step is the cost. `straggler`, where it is found,
explains it.

## Fix
See what only that rank does before the collective: checkpoints, logging, evaluation, more data, a
slower device. `stepwhy run` or a trace of each rank shows it.

## Fix risk
Distributing the data differently changes the order of the samples.

## When it abstains
`no_data` if no record lists the collectives. `incomplete` if fewer than two ranks, or fewer than
eight common collectives are recorded, or if only arrivals are known and the clocks contradict each
other.
"""

from __future__ import annotations

from collections.abc import Iterator

from stepwhy.analyse.lateness.call_lateness import (
    FEWEST_COLLECTIVES,
    CallLateness,
    Unclear,
    lateness_of_calls,
)
from stepwhy.analyse.lateness.late_ranks import Late
from stepwhy.analyse.lateness.late_work import late_work
from stepwhy.analyse.ranks.rank_times import cores_explain
from stepwhy.diagnose.shared.rule import SHARE_BEYOND_MEDIAN, Evidence, Facts, Finding, Rule
from stepwhy.result.wording.hangs import ranks_text
from stepwhy.trace import NULL

RULE = Rule(
    __name__,
    name="A rank that enters collectives late",
    found="Let the rank that enters collectives last enter them earlier",
    clear="No rank enters collectives late",
    of_calls=True,
)

SHARE = 0.10  # of the time between collectives, as of a step for a straggler
# Where ranks wait for cores, some get fewer of them for as long as the run takes, and are late by
# up to a fifth.
CONTENDED_SHARE = 0.25

_ONE_RANK = "Only one rank of each group is recorded."
_FEW = f"The ranks have fewer than {FEWEST_COLLECTIVES} collectives in common that have ended."
_CLOCKS = "It is not recorded how long collectives took, and the clocks of the ranks differ."


def diagnose(facts: Facts) -> Finding:
    """Judge who enters the collectives of each group last."""
    found = facts.derived(lateness_of_calls)
    if isinstance(found, Unclear):
        return _unclear(found)
    share = CONTENDED_SHARE if _is_contended(facts, found) else SHARE
    # Time from one collective to the next, or else the time that one takes.
    usual_ns = found.mean_ns if found.period_ns == NULL else found.period_ns
    if found.late is None or found.late.cost_ns < share * usual_ns:
        return RULE.nothing(tuple(_compared(found)))
    evidence = *_evidence(found, found.late), *_doing(facts, found.late), *_compared(found)
    return RULE.finding(_cost_ns(facts, found, found.late), evidence, RULE.fix())


def _cost_ns(facts: Facts, found: CallLateness, late: Late) -> int | None:
    """How long the others wait in the mean step; None where no steps are recorded."""
    if found.period_ns == NULL or not (facts.steady_count and facts.wall_ns):
        return None
    return round(facts.wall_ns * min(late.cost_ns / found.period_ns, 1.0))


def is_of_late_rank(facts: Facts) -> bool:
    """Whether these are the facts of the rank that is late most often."""
    found = facts.derived(lateness_of_calls)
    late = None if isinstance(found, Unclear) else found.late
    return late is not None and facts.trace.meta.rank == late.ranks[0]


def _doing(facts: Facts, late: Late) -> Iterator[Evidence]:
    """What the rank does longer than the others, as far as its traced steps show it."""
    rank = next((rank for rank in facts.ranks if rank.number == late.ranks[0]), None)
    work = None if rank is None else late_work(facts, rank)
    if work is not None:
        yield Evidence("what takes it longer in the traced steps", work.category, "", work.line)


def _is_contended(facts: Facts, found: CallLateness) -> bool:
    """Whether waits for cores may be why a rank is late."""
    numbers = found.late.ranks if found.late else ()
    late_ns = _cost_ns(facts, found, found.late) if found.late else None
    late = [rank for rank in facts.ranks if rank.number in numbers]
    others = [rank for rank in facts.ranks if rank.number not in numbers]
    if late_ns is None:
        return any(rank.contended for rank in late)
    return any(cores_explain(rank, others, late_ns) for rank in late)


def _unclear(unclear: Unclear) -> Finding:
    if unclear.why == "ranks":
        return RULE.incomplete("all-ranks", _ONE_RANK)
    if unclear.why == "few":
        return RULE.incomplete("enough-steps", _FEW)
    return RULE.incomplete("common-clock", _CLOCKS)


def _evidence(found: CallLateness, late: Late) -> Iterator[Evidence]:
    of = f"of {found.collectives:,}"
    yield Evidence("late ranks, the one that is late most often first", ranks_text(late.ranks), "")
    yield Evidence("collectives in which it is late", late.late_steps[0], "count", of)
    if late.every is not None and late.every > 1:
        yield Evidence("it is late in one collective of", late.every, "count")
    yield Evidence("how long the others wait for it in these", late.in_late_steps_ns, "ns")
    yield Evidence("the same in the mean collective", late.cost_ns, "ns")
    if found.period_ns != NULL:
        yield Evidence("time from one collective to the next, mean", found.period_ns, "ns")
        if late.every != 1:  # the described step is the median one, in which no rank is late
            share = min(late.cost_ns / found.period_ns, 1.0)
            yield Evidence(SHARE_BEYOND_MEDIAN, share, "fraction")


def _compared(found: CallLateness) -> Iterator[Evidence]:
    yield Evidence(
        "collectives that were compared", found.collectives, "count", f"by {found.basis}"
    )
    yield Evidence("mostly", found.call.operation, "", found.call.line)
