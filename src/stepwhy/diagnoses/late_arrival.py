"""A rank enters the collectives of its group later than the others, by lists of calls alone.

## What it means
Again and again, the others have entered a collective, such as an all-reduce, and wait for the same
rank: in all of them, or at a regular distance, such as every tenth.

## Why it costs
A collective ends on no rank before the last one has entered it, so that the devices of the others
are idle until then.

## How it is measured
Records that list collectives, such as dumps of PyTorch's flight recorder and files of NCCL
Inspector, show no steps. So the collectives of a process group are compared one by one: those that
end together on all ranks, and that all ranks have ended. What one takes longer than on the rank
where it is shortest is a wait; that rank was last. Where durations are not recorded, as with Gloo,
the times at which ranks enter a collective are compared, if their clocks do not contradict each
other: no rank may enter a collective before all have entered the one before.

A rank is late if it is last in more collectives than ranks that take turns at random would be, with
a probability of 1 % (binomial test, as for `straggler`), and if the others wait for it for 10 % of
the time from one collective to the next, on average.

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

from typing import TYPE_CHECKING

from stepwhy.diagnoses.shared.rule import Rule
from stepwhy.findings import Evidence, Fix
from stepwhy.passes.call_lateness import FEWEST_COLLECTIVES, Unclear, call_lateness
from stepwhy.trace import NULL
from stepwhy.wording.hangs import ranks_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepwhy.findings import Finding
    from stepwhy.passes.call_lateness import CallLateness
    from stepwhy.passes.facts import Facts
    from stepwhy.passes.lateness import Late

RULE = Rule(
    id="late-arrival",
    family="ranks",
    name="A rank that enters collectives late",
    found="Let the rank that enters collectives last enter them earlier",
    clear="No rank enters collectives late",
    of_calls=True,
)

SHARE = 0.10  # of the time between collectives, as of a step for a straggler

_ONE_RANK = "Only one rank of each group is recorded."
_FEW = f"The ranks have fewer than {FEWEST_COLLECTIVES} collectives in common that have ended."
_CLOCKS = "It is not recorded how long collectives took, and the clocks of the ranks differ."


def diagnose(facts: Facts) -> Finding:
    """Judge who enters the collectives of each group last."""
    found = call_lateness(facts.calls)
    if isinstance(found, Unclear):
        return _unclear(found)
    if found.late is None or found.late.cost_ns < SHARE * _usual_ns(found):
        return RULE.nothing(tuple(_compared(found)))
    return RULE.finding(None, (*_evidence(found, found.late), *_compared(found)), _FIX)


def _unclear(unclear: Unclear) -> Finding:
    if unclear.why == "ranks":
        return RULE.incomplete("all-ranks", _ONE_RANK)
    if unclear.why == "few":
        return RULE.incomplete("enough-steps", _FEW)
    return RULE.incomplete("common-clock", _CLOCKS)


def _usual_ns(found: CallLateness) -> int:
    """Time from one collective to the next, or else the time that one takes."""
    return found.mean_ns if found.period_ns == NULL else found.period_ns


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


def _compared(found: CallLateness) -> Iterator[Evidence]:
    yield Evidence(
        "collectives that were compared", found.collectives, "count", f"by {found.basis}"
    )
    yield Evidence("mostly", found.call.operation, "", found.call.line)


_FIX = Fix(
    "See what only this rank does before it enters the collective: checkpoints, logging, "
    "evaluation, more data, a slower device. Watch the job with 'stepwhy run', or record a trace "
    "of each rank, to see which.",
    "",
    "changes-numerics",
)
