"""Ranks wait in a collective that another rank has not entered.

## What it means
The training stands still. Some ranks have entered a collective, such as an all-reduce, and wait for
the others; at least one rank has not entered it, because it waits for something else, fails, has
left the loop, or takes another branch of the program.

## Why it costs
A collective ends on no rank before all of its ranks have entered it. The job holds all of its
devices until a timeout ends it, by default 10 minutes with NCCL and 30 with Gloo.

## How it is measured
The ranks of a process group number their collectives alike. The record of each rank lists those
that it has entered, and which of them have ended: dumps of PyTorch's flight recorder, which
`stepwhy run` also makes in a step that takes more than ten times the median step and 30 s. The
first number that a rank has not reached, while others wait in it, names the collective. Of several,
that one is reported whose missing ranks do not wait in another collective themselves. The rank
stands at the line that it noted itself in the long step; without, at the line of the call that it
waits in, or else of its last call.

JAX and TensorFlow record no such list. `stepwhy run` notes for each of their ranks where it stands
in such a step. The ranks whose line has called a function of the framework (other than one that
fetches a batch) wait for those that stand elsewhere in the program; if all have called one, or none
has, for those that have ended fewer steps.

Dumps of a running job are not taken at the same instant. Those of a job that hangs do not change:
dump again after a minute if in doubt.

## Fix
Look at the line where the missing rank stands. Often only some ranks call the collective (an `if`
on the rank, uneven numbers of batches, an exception that is caught), or a rank reads data, saves a
checkpoint or waits for a lock. If all ranks have entered the collective, compare what they give to
it, and look at network and devices.

## Fix risk
None.

## When it abstains
`no_data` if no record lists the collectives. `incomplete` if all recorded ranks have entered the
collective and nothing shows for how long they wait; if only some of the ranks are recorded and none
of them waits; or if no rank is behind, and the record does not show which collectives have not
ended, as logs of NCCL. Without such records, it is `incomplete` if all ranks stand in functions of
the framework, or none does, and none has ended fewer steps.
"""

from __future__ import annotations

from collections.abc import Iterator

from stepwhy.analyse.lateness.hangs import find_hang
from stepwhy.diagnose.shared.rule import Evidence, Facts, Finding, Fix, Rule
from stepwhy.result.hangs import Hang
from stepwhy.result.wording.hangs import collective_name, hang_sentence, ranks_text

RULE = Rule(
    __name__,
    name="A collective that a rank does not enter",
    found="Let all ranks enter the collective that the others wait in",
    clear="No rank waits in a collective",
    of_calls=True,
    of_positions=True,
    ends_steps=True,
)

_MOST_NAMED = 8
_SNAPSHOT = (
    "All recorded ranks have entered {}, and it has not ended. Whether it hangs cannot be told "
    "from one dump: dump again after a minute, and explain that."
)
_NOT_OPEN = (
    "No rank is behind the others, but the record does not show which collectives have not ended. "
    "Explain the dumps of PyTorch's flight recorder."
)
_NO_FUNCTION = (
    "Ranks have noted where they stand, but none of them in a function of the framework that waits "
    "for others."
)
_TITLE_BY_POSITIONS = "Look at the rank that the others wait for"
_SOME_RANKS = (
    "The recorded ranks wait in no collective, but not all ranks are recorded. Explain the dumps "
    "of all ranks together."
)


def diagnose(facts: Facts) -> Finding:
    """Judge the collectives that the ranks have entered and not left."""
    hang = find_hang(facts.calls)
    if not facts.calls.calls:
        return _by_positions(hang)
    if hang is None and not facts.calls.shows_open:
        return RULE.incomplete("open-collectives", _NOT_OPEN)
    if hang is None:
        recorded = {calls.rank for calls in facts.calls.calls}
        expected = max(calls.size for calls in facts.calls.calls)
        are_all = len(recorded) >= max(facts.trace.meta.world_size, expected, 2)
        return RULE.nothing() if are_all else RULE.incomplete("all-ranks", _SOME_RANKS)
    evidence = tuple(_evidence(hang))
    if not hang.missing and not hang.unrecorded and hang.waited_ns is None:
        return RULE.incomplete("whole-run", _SNAPSHOT.format(collective_name(hang)), evidence)
    return RULE.finding(None, evidence, _fix(hang))


def _by_positions(hang: Hang | None) -> Finding:
    """The finding on ranks of which only the lines are known that they stand at."""
    if hang is None:
        return RULE.incomplete("collective-calls", _NO_FUNCTION)
    if not hang.missing:
        return RULE.incomplete("collective-calls", hang_sentence(hang))
    evidence = (
        *_absent(hang, "rank that the others wait for"),
        Evidence("what they wait in", collective_name(hang), "", hang.call.line),
        *_waiting_ranks(hang),
    )
    return RULE.finding(None, evidence, RULE.fix("not-called"), title=_TITLE_BY_POSITIONS)


def _evidence(hang: Hang) -> Iterator[Evidence]:
    yield from _absent(hang, "rank that has not entered it")
    yield Evidence("collective", collective_name(hang), "", hang.call.line)
    yield Evidence("what goes into it", f"{hang.call.types} {hang.call.shapes}".strip(), "")
    yield from _waiting_ranks(hang)
    if hang.unrecorded:
        absent = ranks_text(hang.unrecorded)
        yield Evidence("ranks without a record", len(hang.unrecorded), "count", absent)


def _absent(hang: Hang, what: str) -> Iterator[Evidence]:
    """The ranks that the others wait for, and where they stand."""
    for at in hang.missing[:_MOST_NAMED]:
        rank = "unknown" if at.rank is None else str(at.rank)
        inside = f"waits in {at.inside}" if at.inside else ""
        yield Evidence(what, rank, "", " ".join(filter(None, (inside, at.line))))
    more = len(hang.missing) - _MOST_NAMED
    if more > 0:
        yield Evidence("further such ranks", more, "count")


def _waiting_ranks(hang: Hang) -> Iterator[Evidence]:
    """The ranks that wait, and for how long."""
    yield Evidence("ranks that wait in it", len(hang.waiting), "count", ranks_text(hang.waiting))
    if hang.waited_ns is not None:
        yield Evidence("how long the step had lasted when it was noted", hang.waited_ns, "ns")


def _fix(hang: Hang) -> Fix:
    if hang.missing:
        return RULE.fix("waiting" if any(at.inside for at in hang.missing) else "not-called")
    return RULE.fix("no-record" if hang.unrecorded else "all-inside")
