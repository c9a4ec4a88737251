"""Operations run on another device than requested, because soft placement moved them.

## What it means
The program placed an operation on an accelerator, and soft placement silently ran it on the CPU,
because there is no kernel for its type, or no such device. Or it named a GPU that does not exist,
and the operation ran on another one.

## Why it costs
The CPU is slower, and inputs and results are copied to the host and back.

## How it is measured
Nodes whose actual device contradicts the requested one, except those that only hold or manage
state, which run on the host by design. It is a finding if they take 5 % of the step with the copies
to and from them; where no time was recorded, if they are 5 % of the nodes with a request. The cost
is the time in which they run while no accelerator works. No saving is predicted if the run used no
accelerator at all, because its speed is unknown, and none for CPU devices of one process, which
are as fast as each other.

## Fix
Use a data type or operation that has a kernel on the accelerator, install the build that has one,
or turn soft placement off to see the error.

## Fix risk
Another data type changes numerics.

## When it abstains
Without a record of the placement. Does not apply if the program requested no accelerator, and soft
placement moved nothing.
"""

from __future__ import annotations

from stepwhy.analyse.program.placement import (
    Node,
    copies_around,
    fallen,
    node_times,
    placed_nodes,
    type_of,
)
from stepwhy.diagnose.shared.measure import mean_within, on_scale, time_of
from stepwhy.diagnose.shared.placement import (
    COPIED_FOR_OPS,
    SAME_CORES,
    SHARE,
    by_time,
    elsewhere,
    example,
    listed,
    share_their_cores,
    types_run,
)
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Rule, saving
from stepwhy.diagnose.shared.slices import scopes_among
from stepwhy.trace import DeviceKind, Kind

RULE = Rule(
    __name__,
    name="Fallback to another device",
    found="Run operations on the device that they were placed on",
    clear="Soft placement moves no operations that take time",
    needs=(("placement",),),
)

LEAST_SAVED = 0.5  # of the cost; on the accelerator the operations take time, too


def diagnose(facts: Facts) -> Finding:
    """Judge the nodes that requested a device."""
    nodes = [n for n in placed_nodes(facts) if n.actual and n.requested]
    if not nodes:
        return RULE.incomplete("requested-devices", "The requested devices are not recorded.")
    moved = fallen(facts)
    asked = [n for n in nodes if type_of(n.requested) not in {"", "CPU"}]
    if not asked and not moved:
        return RULE.not_applicable("The program requested no accelerator.")
    counted = Evidence("operations placed on an accelerator", len(asked), "count")
    cost = elsewhere(facts, moved, ())
    is_many = len(moved) >= SHARE * len(nodes)
    matters = cost.matters(facts) if node_times(facts) else is_many
    if not moved or not matters:
        few = (Evidence("operations that fell back", len(moved), "count"),) if moved else ()
        return RULE.nothing((counted, *few))
    return _found(facts, moved, counted)


def _found(facts: Facts, moved: list[Node], counted: Evidence) -> Finding:
    same = share_their_cores(d for n in moved for d in (n.requested, n.actual))
    cost = None if same else _cost_ns(facts, moved)
    gain = edit = None
    if cost and facts.has_accelerator:
        gain = saving("run on the device asked for", LEAST_SAVED * cost, cost)
        edit = Edit("ops", "moved", device=moved[0].requested)
    return RULE.finding(cost, _evidence(facts, moved, counted, same=same), RULE.fix(), gain, edit)


def _cost_ns(facts: Facts, moved: list[Node]) -> int | None:
    names = frozenset(n.name for n in moved)
    rows = scopes_among(facts, names, Kind.KERNEL)
    if not len(rows):
        return None
    time = time_of(facts, rows)
    for activity in facts.activities:
        if activity.kind is not DeviceKind.CPU:
            time = time - activity.busy
    return on_scale(facts, mean_within(facts, time))


def _evidence(
    facts: Facts, moved: list[Node], counted: Evidence, *, same: bool
) -> tuple[Evidence, ...]:
    copied = copies_around(facts, moved)
    ran_as = types_run(facts, moved)
    found = [
        Evidence("operations that fell back", len(moved), "count"),
        counted,
        Evidence("requested device", listed(n.requested for n in moved), ""),
        Evidence("device they ran on", listed(n.actual for n in moved), ""),
    ]
    if lines := listed(n.line for n in moved):
        found.append(Evidence("responsible device scope", lines, ""))
    if same:
        found.append(Evidence("these devices", SAME_CORES, ""))
    elif not facts.has_accelerator:
        found.append(Evidence("accelerators that the run used", 0, "count"))
    found.extend(
        Evidence(f"{g.name} operations", g.count, "count", example(moved, g.name, ran_as))
        for g in by_time(facts, moved)[:4]
    )
    if copied.bytes is not None:
        found.append(Evidence(COPIED_FOR_OPS, copied.bytes, "bytes"))
    return tuple(found)
