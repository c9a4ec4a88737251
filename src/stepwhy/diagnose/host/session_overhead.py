"""`Session.run` takes much longer than the operations that it runs.

## What it means
Before the first operation, between operations and after the last one, no operation runs: the
calling thread converts and copies what is fed, and copies what is fetched.

## Why it costs
The devices are idle for as long as that takes, in every step.

## How it is measured
The time in the runs of a steady step before, after and shortly between operations, except while the
graph is prepared and while other threads hold the interpreter's lock. Time between two runs does
not count, nor does the time by which untraced runs are longer than traced ones. It has no cost of
its own: `feed-dict-copy` and `large-fetch` report the cost of its causes.

## Fix
Feed and fetch less: read input inside the graph, fetch only what is used, and feed NumPy arrays of
the placeholder's own type.

## Fix risk
None.

## When it abstains
Without the runs of a session from start to end.
"""

from __future__ import annotations

from stepwhy.diagnose.shared.feeds import parts_or_reason
from stepwhy.diagnose.shared.rule import Facts, Finding, Rule
from stepwhy.diagnose.shared.session_evidence import feed_less, is_overhead, session_evidence

RULE = Rule(
    __name__,
    name="Time around the operations of Session.run",
    found="Feed and fetch less: Session.run takes much longer than its operations",
    clear="Session.run takes little longer than its operations",
    needs=(("device-time",), ("steps",)),
)


def diagnose(facts: Facts) -> Finding:
    """Judge the time in `Session.run` in which no operation runs."""
    parts = parts_or_reason(RULE, facts)
    if isinstance(parts, Finding):
        return parts
    if not is_overhead(facts, parts):
        return RULE.nothing()
    return RULE.finding(None, session_evidence(facts, parts), feed_less())
