"""So much is fetched that the graph has long ended when `Session.run` returns.

## What it means
The loop fetches large tensors, often whole variables, in each step: to look at a few of their
numbers, to keep the best, to plot them now and then.

## Why it costs
What is fetched becomes a NumPy array. A variable has to be copied for it, into memory that is fresh
in each step, as the next step changes it. A tensor that nothing else needs, such as an activation
on the CPU, may be handed over as it is, for nothing.

## How it is measured
The time from the last operation of the traced runs until `Session.run` returns, without what any
run takes and without what tracing adds. It counts as far as the size of what is fetched, which
`stepwhy run` notes of traced runs, can explain it. A large fetch that costs nothing is no finding.

## Fix
Let the graph choose or sum up what is looked at, and fetch the result. Fetch whole variables every
hundred steps, in a run of their own.

## Fix risk
None.

## When it abstains
When the runs themselves were not recorded, as `stepwhy run` records them. It does not apply to
programs without `Session.run`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.diagnoses.shared.feeds import CALL_NS, handed, longest_ns, parts_or_reason
from stepwhy.diagnoses.shared.rule import Rule, saving
from stepwhy.findings import Evidence, Finding, Fix

if TYPE_CHECKING:
    from stepwhy.passes.facts import Facts

RULE = Rule(
    id="large-fetch",
    family="host",
    name="Copies of what is fetched",
    found="Fetch less in each step",
    clear="What is fetched costs little",
)

SHARE = 0.10  # of the step; below it the cure gains less than what steps vary by

# Bytes per second. Variables were copied at 4 to 5 GB/s on a quiet core; ten times as slow, it is
# something else that takes so long.
_SLOWEST = dict.fromkeys(("items", "cast", "copy"), 4e8)


def diagnose(facts: Facts) -> Finding:
    """Judge the time after the last operation of the runs."""
    parts = parts_or_reason(RULE, facts)
    if isinstance(parts, Finding):
        return parts
    fetches = handed(facts, fed=False)
    if not fetches:
        return RULE.nothing()
    evidence = (
        Evidence("after the last operation of Session.run", parts.after_ns, "ns"),
        *(
            Evidence("fetched per step", f.bytes, "bytes", f.name)
            for f in fetches[:3]
            if f.bytes is not None
        ),
    )
    cost = round(min(parts.after_ns - CALL_NS, longest_ns(fetches, _SLOWEST)))
    if cost < SHARE * parts.wall_ns:
        return RULE.nothing(evidence)
    gain = saving("fetch less", cost, min(cost + CALL_NS, parts.after_ns))
    return RULE.finding(cost, evidence, _FIX, gain)


_FIX = Fix(
    "Let the graph choose or sum up what the loop looks at, and fetch that; fetch whole variables "
    "only where they are used, such as every hundred steps.",
    "norm = tf.norm(tf.gather(table, watched))   # before the loop\n"
    "for step in range(steps):\n"
    "    _, length = session.run([train, norm], feed)\n"
    "    if step % 100 == 0:\n"
    "        vectors = session.run(table)",
    "none",
)
