"""The step takes longer than everything that was recorded in it.

## What it means
Part of the wall time of a step is covered neither by device work nor by anything that the host
was seen doing. A timeline looks fast, the clock on the wall does not.

## Why it costs
The training pays wall time. What the timeline does not show is no smaller for it: entering and
leaving `Session.run`, conversion of fed and fetched values, Python without a profiler, another
process on the same cores.

## How it is measured
Time of the steady steps without any evidence: the 'unexplained' part of the breakdown, so that
what waiting for input, launching or synchronisation explain is not blamed twice. Where the record
shows the window of `Session.run`, the time before its first and after its last operation stands
beside it; where unprofiled steps were observed, what profiling adds.

## Fix
Look where the record does not: record Python stacks, time the parts of the loop by hand, and for
`Session.run` feed and fetch less.

## Fix risk
None.

## When it abstains
When device time was not recorded at all: then all of the step is a gap, and it says nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.diagnoses._rule import Rule
from stepwhy.findings import Evidence, Fix
from stepwhy.trace import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.findings import Finding
    from stepwhy.passes.facts import Facts

RULE = Rule(
    id="wall-device-gap",
    family="measurement",
    name="Wall time that no record explains",
    found="Find what the record does not show",
    clear="The record accounts for the wall time of the step",
    needs=(("device-time",), ("steps",)),
)

SHARE = 0.20  # of the step; profilers always miss something, a fifth is more than that


def diagnose(facts: Facts) -> Finding:
    """Judge the part of the step that nothing explains."""
    cost = facts.breakdown["unexplained"]
    evidence = _evidence(facts)
    if facts.share("unexplained") < SHARE:
        return RULE.nothing(evidence[:1])
    return RULE.finding(cost, evidence, _fix(facts))


def _evidence(facts: Facts) -> tuple[Evidence, ...]:
    wall = Evidence("wall time of the step", facts.wall_ns, "ns")
    share = Evidence("share of the step without evidence", facts.share("unexplained"), "fraction")
    busy = sum(facts.breakdown[c] for c in ("compute", "communication", "transfer"))
    found = [share, wall, Evidence("time in which a device works", busy, "ns")]
    return (*found, *_around(facts), *_unprofiled(facts))


def _around(facts: Facts) -> list[Evidence]:
    """Before the first and after the last operation of `Session.run`."""
    trace, steps = facts.trace, facts.steps
    if trace.meta.framework != "tensorflow" or steps.source != "marker":
        return []
    rows = np.sort(
        np.concatenate([_device_rows(facts), trace.rows(Kind.OP, Kind.WAIT, Kind.INPUT)])
    )
    before, after = [], []
    for start, end in zip(steps.starts[steps.steady], steps.ends[steps.steady], strict=True):
        at = trace.slices.start_ns[rows]
        own = rows[(at >= start) & (at < end)]
        if len(own):
            before.append(int(trace.slices.start_ns[own].min() - start))
            after.append(max(int(end - trace.end_ns[own].max()), 0))
    if not before:
        return []
    return [
        Evidence("before the first operation of Session.run", facts.mean_ns(sum(before)), "ns"),
        Evidence("after the last operation of Session.run", facts.mean_ns(sum(after)), "ns"),
    ]


def _device_rows(facts: Facts) -> NDArray[np.int64]:
    return np.concatenate([a.rows for a in facts.activities])


def _unprofiled(facts: Facts) -> list[Evidence]:
    """What profiling adds, where steps without a profiler were observed as well."""
    if facts.observed is None:
        return []
    found = [Evidence("median step without a profiler", facts.observed.wall_ns, "ns")]
    if facts.observed.profiler_cost is not None:
        cost = facts.observed.profiler_cost
        found.append(Evidence("relative cost of profiling a step", cost, "fraction"))
    return found


def _fix(facts: Facts) -> Fix:
    return {"pytorch": _PYTORCH, "tensorflow": _TENSORFLOW}.get(facts.trace.meta.framework, _ANY)


_PYTORCH = Fix(
    "Record what the host does meanwhile: operations and Python stacks.",
    "activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]\n"
    "torch.profiler.profile(activities=activities, with_stack=True)",
    "none",
)
_TENSORFLOW = Fix(
    "Feed and fetch less: what goes into and comes out of Session.run is converted and copied on "
    "the calling thread. Fetch only what is used, read input inside the graph, feed NumPy arrays "
    "of the placeholder's own type.",
    "_, loss = session.run([train_op, loss_op])\n# no large fetches, no feed_dict of lists",
    "none",
)
_ANY = Fix("Record what the host does meanwhile.", "", "none")
