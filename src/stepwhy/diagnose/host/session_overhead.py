"""`Session.run` takes much longer than the operations that it runs.

## What it means
Before the first operation and after the last one, no operation runs: the calling thread prepares
the call, takes what is fed and returns what is fetched. Each value takes some time, however small
it is, so that hundreds of scalars take longer than the model.

## Why it costs
The devices are idle for as long as that takes, in every step.

## How it is measured
The time in the runs of a steady step before their first and after their last operation, except
while the graph is prepared and while other threads hold the interpreter's lock. What the size of
the fed and fetched values explains does not count, because `feed-dict-copy` and `large-fetch`
report it; neither does the time between two runs, nor the time by which untraced runs are longer
than traced ones. It has no cost of its own, because the fixed part of a run is not known.

## Fix
Feed and fetch less: read input inside the graph, fetch only what is used, combine many small values
into one, and feed NumPy arrays of the placeholder's own type.

## Fix risk
None.

## When it abstains
Without the runs of a session from start to end.
"""

from __future__ import annotations

from stepwhy.diagnose.shared.feeds import feeding_ns, fetching_ns, parts_or_reason, session_values
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
    fed, fetched = session_values(facts, fed=True), session_values(facts, fed=False)
    explained_ns = max(feeding_ns(parts, fed), 0) + max(fetching_ns(parts, fetched), 0)
    if not is_overhead(facts, parts, explained_ns):
        return RULE.nothing()
    return RULE.finding(None, session_evidence(facts, parts), feed_less())
