"""`Session.run` takes much longer than the operations that it runs.

## What it means
Before the first operation and after the last one, no operation runs: the calling thread prepares
the call, takes what is fed and returns what is fetched. Each value takes some time, however small
it is, so that hundreds of scalars take longer than the model.

## Why it costs
The devices are idle for as long as that takes, in every step.

## How it is measured
A step may call `Session.run` several times. If a call beside the one that trains computes no
gradients and is no prediction for a single example, and its operations take less than half of its
time, the training call could do the same. The cost is the time at the lines of such calls in which
nothing computes, as the samples of the driving thread show it.

Otherwise, it is the time in the runs of a steady step before their first and after their last
operation, except while the graph is prepared and while other threads hold the interpreter's lock.
What the size of the fed and fetched values explains does not count, because `feed-dict-copy` and
`large-fetch` report it; neither does the time between two runs, nor the time by which untraced runs
are longer than traced ones. It has no cost of its own, because the fixed part of a run is not
known.

## Fix
Let one call of `Session.run` do what several do. Feed and fetch less: read input inside the graph,
fetch only what is used, combine many small values into one, and feed NumPy arrays of the
placeholder's own type.

## Fix risk
None, if what is merged does not depend on the order of the calls.

## When it abstains
Without the runs of a session from start to end. Does not apply if few values are fed and fetched,
none of them a list: what a call takes beside its operations is then its fixed part.
"""

from __future__ import annotations

from collections import defaultdict

from stepwhy.analyse.lines.by_line import line_breakdown
from stepwhy.diagnose.shared.feeds import (
    SessionValue,
    feeding_ns,
    fetching_ns,
    parts_or_reason,
    session_values,
)
from stepwhy.diagnose.shared.rule import Evidence, Facts, Finding, Rule, saving
from stepwhy.diagnose.shared.session_evidence import feed_less, is_overhead, session_evidence
from stepwhy.diagnose.shared.session_runs import SessionRun, session_runs
from stepwhy.trace import NULL

RULE = Rule(
    __name__,
    name="Time around the operations of Session.run",
    found="Feed and fetch less: Session.run takes much longer than its operations",
    clear="Session.run takes little longer than its operations",
    needs=(("device-time",), ("steps",)),
)

MERGED = 0.15  # of the step; a third of it may be all that is saved
LEAST_SAVED = 0.2  # of the time at the lines; the training call then wakes threads that they woke
IDLE = 0.5  # of a call, without operations; one that computes more may be longer beside others
FEW = 16  # values of a step; each takes some microseconds

_SHOWN = 3
_TITLE = "Call Session.run once per step: other calls take longer than what they compute"
_FIXED = (
    "The step passes few values to Session.run, and gets few: what that takes beside its "
    "operations is the fixed part of a call."
)


def diagnose(facts: Facts) -> Finding:
    """Judge the time in `Session.run` in which no operation runs."""
    parts = parts_or_reason(RULE, facts)
    if isinstance(parts, Finding):
        return parts
    lines = _lines_beside(facts)
    cost = sum(lines.values())
    if cost >= MERGED * facts.wall_ns:
        gain = saving("one call of Session.run", LEAST_SAVED * cost, cost)
        longest = sorted(lines.items(), key=lambda item: -item[1])[:_SHOWN]
        at = (
            Evidence("time at the line, without operations", ns, "ns", line) for line, ns in longest
        )
        return RULE.finding(cost, tuple(at), RULE.fix("merged"), gain, title=_TITLE)
    fed, fetched = session_values(facts, fed=True), session_values(facts, fed=False)
    explained_ns = max(feeding_ns(parts, fed), 0) + max(fetching_ns(parts, fetched), 0)
    if not is_overhead(facts, parts, explained_ns):
        return RULE.nothing()
    if _are_few(fed + fetched):
        return RULE.not_applicable(_FIXED)
    return RULE.finding(None, session_evidence(facts, parts), feed_less())


def _are_few(values: list[SessionValue]) -> bool:
    """Whether some values are known, and to pass them cannot take long."""
    return 0 < len(values) < FEW and not any(
        each.bytes is None or each.kind == "items" for each in values
    )


def _lines_beside(facts: Facts) -> dict[str, int]:
    """Time per step without operations at the lines of calls that the training call could do, ns.

    Only of calls that each step makes.
    """
    steps = defaultdict[int, list[SessionRun]](list)
    for run in session_runs(facts):
        steps[run.step].append(run)
    beside = [_beside(facts, runs) for runs in steps.values()]
    lines = facts.derived(line_breakdown) if beside and all(beside) else None
    if lines is None:
        return {}
    of_each_step = set[str].intersection(*beside)
    return {
        row.line: row.categories.get("dispatch", 0)
        for row in lines.lines
        if row.kind == "line" and row.line in of_each_step
    }


def _beside(facts: Facts, runs: list[SessionRun]) -> set[str]:
    """Lines of the calls of a step that could be part of the one that trains."""
    sources, text = facts.trace.slices.source, facts.trace.string
    training = {int(sources[run.slice]) for run in runs if run.updates and run.derives}
    found = {
        int(sources[run.slice])
        for run in runs
        if not (run.derives or _predicts_one(run)) and _is_idle(facts, run)
    }
    return {text(line) for line in found - training - {NULL}} if training else set()


def _predicts_one(run: SessionRun) -> bool:
    """Whether a call computes the next action, say, which the program needs before it goes on."""
    _, fetched = run.shapes
    return bool(fetched) and run.gets_one_example()


def _is_idle(facts: Facts, run: SessionRun) -> bool:
    """Whether no operation runs for most of a call."""
    busy_ns = int(facts.trace.slices.dur_ns[run.rows].sum())
    return busy_ns < (1 - IDLE) * run.dur_ns
