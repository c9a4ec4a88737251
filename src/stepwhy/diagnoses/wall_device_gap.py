"""The clock on the wall and the timeline do not tell of the same work.

## What it means
Part of the wall time of a step is covered neither by device work nor by anything that the host
was seen doing: a timeline looks fast, the clock on the wall does not. Or the clock runs, but part
of what was built does not: a tower that no fetched result needs is pruned before the run.

## Why it costs
The training pays wall time. What the timeline does not show is no smaller for it: entering and
leaving `Session.run`, conversion of fed and fetched values, Python without a profiler, another
process on the same cores. A measurement that leaves out a tower, or that takes in the first runs,
in which the graph is prepared, costs wrong conclusions.

## How it is measured
The time of the steady steps without any evidence is the 'unexplained' part of the breakdown, so
that what waiting for input, launching or synchronisation explain is not blamed twice.

Steps of `Session.run`s are reconciled to the last nanosecond: Python between two runs,
preparation of the graph, before the first operation, what runs (each moment once, and on each
device from when to when), between two operations, after the last one, and what remains. Traced
runs say how a run divides, untraced ones how long it takes. What tracing adds is told apart: after
the last operation a traced run hands over its trace, and takes longer for it than an untraced
run's thread is busy in all; by as much as the rest of a traced run is slower, its parts shrink. By
as much as it is faster, beyond chance, time is without evidence.

A tower of which no operation ran, while operations of another one did, was not fetched. The finding
then costs what the gap costs, the time of a run in which no operation runs. Where the gap alone is
the finding it has no cost of its own: what fills it may have a finding with a cost.

## Fix
Look where the record does not: record Python stacks, time the parts of the loop by hand, and for
`Session.run` feed and fetch less. Fetch what needs all towers, and leave the first runs out of the
mean.

## Fix risk
None.

## When it abstains
When device time was not recorded at all: then all of the step is a gap, and it says nothing.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from stepwhy.diagnoses._placement import placed_nodes
from stepwhy.diagnoses._rule import Rule, saving
from stepwhy.findings import Evidence, Fix
from stepwhy.passes.sampled_lines import python_lines
from stepwhy.passes.session_parts import find_session_parts
from stepwhy.patterns import regex
from stepwhy.trace import Kind
from stepwhy.units import format_count, format_ns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.diagnoses._placement import Node
    from stepwhy.findings import Finding
    from stepwhy.passes.facts import Facts
    from stepwhy.passes.session_parts import SessionParts

RULE = Rule(
    id="wall-device-gap",
    family="measurement",
    name="Wall clock and timeline",
    found="Make the clock and the timeline tell of the same work",
    clear="The record accounts for the wall time of the step",
    needs=(("device-time",), ("steps",)),
)

SHARE = 0.20  # of the step; profilers always miss something, a fifth is more than that
LEAST_GAP_NS = 1_000_000  # per step; every call of Session.run takes some tenths of a millisecond
WORTH_NAMING = 0.01  # of the step; shorter bursts are one line each that nobody reads

# Source: `gradients_util.py`, names of the scopes that tf.gradients opens.
_BACKWARD = regex(r"(?:^|/)gradients(?:_\d+)?/|_grad/")


def diagnose(facts: Facts) -> Finding:
    """Judge the part of the step that nothing explains, and of the graph that does not run."""
    parts = find_session_parts(facts)
    if parts is None:
        evidence = (*_unexplained(facts), *_around(facts), *_unprofiled(facts))
        return _of_the_record(facts, evidence)
    nodes = placed_nodes(facts)
    idle = _idle_towers(nodes)
    evidence = (*_told(idle), *_graph(nodes), *_first_runs(facts), *_sum(parts), *_bursts(parts))
    if idle:
        gap = saving("feed and fetch less", 0, parts.gap_ns)
        return RULE.finding(parts.gap_ns, evidence, _FETCH, gap)
    # While other threads hold the interpreter's lock, feeding less would gain nothing.
    gap_ns = parts.gap_ns - facts.lock_wait_ns
    if gap_ns >= max(SHARE * parts.wall_ns, LEAST_GAP_NS):
        return RULE.finding(None, evidence, _TENSORFLOW)
    return _of_the_record(facts, evidence)


def _of_the_record(facts: Facts, evidence: tuple[Evidence, ...]) -> Finding:
    """Judge what the record leaves open."""
    if facts.share("unexplained") < SHARE:
        return RULE.nothing(evidence)
    return RULE.finding(facts.breakdown["unexplained"], evidence, _fix(facts))


def _unexplained(facts: Facts) -> tuple[Evidence, ...]:
    busy = sum(facts.breakdown[c] for c in ("compute", "communication", "transfer"))
    return (
        Evidence("share of the step without evidence", facts.share("unexplained"), "fraction"),
        Evidence("wall time of the step", facts.wall_ns, "ns"),
        Evidence("time in which a device works", busy, "ns"),
    )


def _idle_towers(nodes: list[Node]) -> dict[str, int]:
    """Operations of each tower of which none ran, where another one's did."""
    built: dict[str, set[str]] = defaultdict(set)
    heavy: set[str] = set()
    ran: set[str] = set()
    for node in nodes:
        if node.tower:
            built[node.tower].add(node.name)
            heavy.update({node.tower} if node.is_heavy else ())
            ran.update({node.tower} if node.actual else ())
    return {t: len(names) for t, names in sorted(built.items()) if t in heavy - ran and ran & heavy}


def _told(idle: dict[str, int]) -> list[Evidence]:
    return [
        Evidence(f"{tower}: built, but none of it ran", count, "count", "operations")
        for tower, count in idle.items()
    ]


def _first_runs(facts: Facts) -> list[Evidence]:
    """What a clock says that also counts the runs in which the graph is prepared."""
    observed = facts.observed
    if observed is None or not observed.warm_up:
        return []
    mean = round(float(observed.durations_ns.mean()))
    first = "the first run" if observed.warm_up == 1 else f"the first {observed.warm_up} runs"
    slowest = format_ns(int(observed.durations_ns[: observed.warm_up].max()))
    where = f"of all untraced runs; the slowest of the first ones takes {slowest}"
    return [Evidence(f"mean step that counts {first}", mean, "ns", where)]


def _sum(parts: SessionParts) -> list[Evidence]:
    """The wall time, its parts, which sum to it, and what tracing added."""
    share = parts.unexplained_ns / parts.wall_ns if parts.wall_ns else 0.0
    by_time = [
        ("before the first operation of Session.run", parts.before_ns, ""),
        *((name, ns, "any device") for name, ns in parts.bursts_ns.items()),
        ("between two operations", parts.scheduling_ns, ""),
        ("after the last operation of Session.run", parts.after_ns, ""),
        ("Python between two runs", parts.outside_ns, ""),
        ("preparation of the graph", parts.preparing_ns, ""),
        ("without evidence", parts.unexplained_ns, ""),
    ]
    found = [Evidence("wall time of the step", parts.wall_ns, "ns")]
    found += [Evidence(what, ns, "ns", where) for what, ns, where in by_time if ns]
    found.append(Evidence("share of the step without evidence", share, "fraction"))
    if parts.handing_over_ns:
        what = "a traced run on top, for its trace"
        found.append(Evidence(what, parts.handing_over_ns, "ns", "not in the sum"))
    if parts.slower is not None:
        found.append(Evidence("a traced run otherwise, relatively", parts.slower, "fraction"))
    return found


def _graph(nodes: list[Node]) -> list[Evidence]:
    """Whether backpropagation is among what ran, where the graph has any."""
    built = {n.name for n in nodes if _BACKWARD.search(n.name)}
    ran = {n.name for n in nodes if n.actual and n.name in built}
    if not built:
        return []
    where = f"of {format_count(len(built))} built" + ("" if ran else ": no burst is backward")
    return [Evidence("operations of backpropagation that ran", len(ran), "count", where)]


def _bursts(parts: SessionParts) -> list[Evidence]:
    """What each device does and when, in a traced run."""
    return [
        Evidence(
            f"traced: {b.name} on {b.device}",
            b.busy_ns,
            "ns",
            f"from {format_ns(b.start_ns)} to {format_ns(b.end_ns)}",
        )
        for b in parts.bursts
        if b.busy_ns >= WORTH_NAMING * parts.wall_ns
    ]


def _around(facts: Facts) -> list[Evidence]:
    """Before the first and after the last operation of `Session.run`."""
    trace, steps = facts.trace, facts.steps
    if trace.meta.framework != "tensorflow" or steps.source != "marker":
        return []
    starts, ends = steps.starts[steps.steady], steps.ends[steps.steady]
    first, last = ends.copy(), starts.copy()
    rows = _operations(facts)
    if not len(rows):
        return []
    step = np.searchsorted(starts, trace.slices.start_ns[rows], side="right") - 1
    np.minimum.at(first, step, trace.slices.start_ns[rows])
    np.maximum.at(last, step, trace.ends(rows))
    has_any = np.bincount(step, minlength=len(starts)) > 0
    before = sum((first - starts)[has_any].tolist())
    after = sum(np.maximum(ends - last, 0)[has_any].tolist())
    return [
        Evidence("before the first operation of Session.run", facts.mean_ns(before), "ns"),
        Evidence("after the last operation of Session.run", facts.mean_ns(after), "ns"),
    ]


def _operations(facts: Facts) -> NDArray[np.int64]:
    """What runs in the steady steps on a device or for the program; rows of slices."""
    runs = facts.trace.is_kind(Kind.OP, Kind.WAIT, Kind.INPUT)
    for activity in facts.activities:
        runs[activity.rows] = True
    return np.flatnonzero(runs & facts.is_steady)


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
    if facts.observed is not None:
        return _watched(facts)
    framework = facts.trace.meta.framework
    if framework == "pytorch":
        return _PYTORCH_GPU if facts.has_accelerator else _PYTORCH
    return _TENSORFLOW if framework == "tensorflow" else _ANY


def _watched(facts: Facts) -> Fix:
    """What can be traced of a watched run was: the samples say where to look."""
    lines = [line for line, share in python_lines(facts.sampled) if share >= SHARE]
    where = f"begin at {lines[0]}" if lines else "look at what the loop does there"
    return Fix(
        "No framework traces what a program does between two calls of it, waiting, sleeping, "
        f"reading and writing included: {where}.",
        "",
        "none",
    )


_PYTORCH = Fix(
    "Record what the host does meanwhile: operations and Python stacks.",
    "torch.profiler.profile(\n    activities=[ProfilerActivity.CPU], with_stack=True\n)",
    "none",
)
_PYTORCH_GPU = Fix(
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
_FETCH = Fix(
    "Fetch what needs all towers: what no fetched result needs is pruned and does not run. Leave "
    "the first runs out of the mean, and give each tower its share of the batch.",
    "parts = enumerate(tf.split(batch, towers))\n"
    "logits = [tower(i, images) for i, images in parts]\n"
    "for _ in range(10):\n"
    "    session.run(logits)  # not timed\n"
    "session.run(logits)",
    "none",
)
_ANY = Fix("Record what the host does meanwhile.", "", "none")
