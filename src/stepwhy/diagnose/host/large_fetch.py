"""Fetched values are so large that `Session.run` returns long after the graph has finished.

## What it means
The loop fetches large tensors, often whole variables, in each step: to inspect a few values, to
keep the best weights, to plot them now and then.

## Why it costs
A fetched value becomes a NumPy array. A variable has to be copied into newly allocated memory in
each step, because the next step changes it. A tensor that nothing else needs, such as an activation
on the CPU, may be returned without a copy.

## How it is measured
The time from the last operation of the traced runs until `Session.run` returns, excluding the fixed
overhead of a run and of tracing. It counts only as far as the size of the fetched values explains
it: `stepwhy run` records sizes in traced runs. A large fetch that costs nothing is not
reported, nor is less than 0.6 ms, because the fixed overhead varies by as much.

## Fix
Select or reduce the values inside the graph, and fetch the result. Fetch whole variables every
hundred steps, in a separate run.

## Fix risk
None.

## When it abstains
When calls of `Session.run` were not recorded; `stepwhy run` records them. Does not apply to
programs without `Session.run`.
"""

from __future__ import annotations

from stepwhy.diagnose.shared.feeds import (
    CALL_NS,
    LEAST_NS,
    fetching_ns,
    parts_or_reason,
    session_values,
)
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Rule, saving
from stepwhy.diagnose.shared.sampled import launching_lines

RULE = Rule(
    __name__,
    name="Copies of fetched values",
    found="Fetch less in each step",
    clear="Fetching costs little",
)

SHARE = 0.10  # of the step; below it the gain is less than the variation between steps


def diagnose(facts: Facts) -> Finding:
    """Judge the time after the last operation of the runs."""
    parts = parts_or_reason(RULE, facts)
    if isinstance(parts, Finding):
        return parts
    fetches = session_values(facts, fed=False)
    if not fetches:
        return RULE.nothing()
    evidence = (
        Evidence("after the last operation of Session.run", parts.after_ns, "ns"),
        *(
            Evidence("fetched per step", f.bytes, "bytes", f.name)
            for f in fetches[:3]
            if f.bytes is not None
        ),
        *launching_lines(facts),
    )
    cost = round(fetching_ns(parts, fetches))
    if cost < max(SHARE * parts.wall_ns, LEAST_NS):
        return RULE.nothing(evidence)
    gain = saving("fetch less", cost, min(cost + CALL_NS, parts.after_ns))
    return RULE.finding(cost, evidence, RULE.fix(), gain, Edit("dispatch", "gone"))
