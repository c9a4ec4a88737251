"""Operations run on the CPU although the program requested an accelerator.

## What it means
The program placed an operation on an accelerator, and soft placement silently ran it on the CPU,
because there is no kernel for its type, or no such device.

## Why it costs
The CPU is slower, and inputs and results are copied to the host and back.

## How it is measured
Nodes whose requested device names an accelerator and whose actual device is a CPU, except those
that only hold or manage state, which run on the host by design. The cost is the time in which
they run on the CPU while no accelerator works. No saving is predicted if the run used no
accelerator at all, because its speed is unknown.

## Fix
Use a data type or operation that has a kernel on the accelerator, install the build that has one,
or turn soft placement off to see the error.

## Fix risk
Another data type changes numerics.

## When it abstains
Without a record of the placement. Does not apply if the program requested no accelerator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.diagnoses.shared.measure import mean_within, on_scale, time_of
from stepwhy.diagnoses.shared.placement import COPIED_FOR_OPS, by_op, listed
from stepwhy.diagnoses.shared.rule import Rule, saving
from stepwhy.diagnoses.shared.slices import scopes_among
from stepwhy.findings import Edit, Evidence, Fix
from stepwhy.passes.placement import copies_around, is_heavy, placed_nodes, type_of
from stepwhy.trace import DeviceKind, Kind

if TYPE_CHECKING:
    from stepwhy.findings import Finding
    from stepwhy.passes.facts import Facts
    from stepwhy.passes.placement import Node

RULE = Rule(
    id="soft-placement-fallback",
    family="placement",
    name="Fallback to the CPU",
    found="Run operations on the accelerator that they were placed on",
    clear="Operations placed on an accelerator run there",
    needs=(("placement",),),
)

LEAST_SAVED = 0.5  # of the cost; on the accelerator the operations take time, too


def diagnose(facts: Facts) -> Finding:
    """Judge the nodes that requested an accelerator."""
    nodes = [n for n in placed_nodes(facts) if n.actual]
    asked = [n for n in nodes if type_of(n.requested) not in {"", "CPU"}]
    if not any(n.requested for n in nodes):
        return RULE.incomplete("requested-devices", "The requested devices are not recorded.")
    if not asked:
        return RULE.not_applicable("The program requested no accelerator.")
    fallen = [n for n in asked if type_of(n.actual) == "CPU" and n.is_compute]
    if not fallen:
        return RULE.nothing((Evidence("operations placed on an accelerator", len(asked), "count"),))
    cost = _cost_ns(facts, fallen)
    gain = edit = None
    if cost and facts.has_accelerator:
        gain = saving("run on the device asked for", LEAST_SAVED * cost, cost)
        edit = Edit("ops", "moved", device=fallen[0].requested)
    return RULE.finding(cost, _evidence(facts, fallen, asked), _FIX, gain, edit)


def _cost_ns(facts: Facts, fallen: list[Node]) -> int | None:
    names = frozenset(n.name for n in fallen)
    rows = scopes_among(facts, names, Kind.KERNEL)
    if not len(rows):
        return None
    time = time_of(facts, rows)
    for activity in facts.activities:
        if activity.kind is not DeviceKind.CPU:
            time = time - activity.busy
    return on_scale(facts, mean_within(facts, time))


def _evidence(facts: Facts, fallen: list[Node], asked: list[Node]) -> tuple[Evidence, ...]:
    copied = copies_around(facts, fallen)
    types = sorted(by_op(fallen), key=lambda g: (not is_heavy(g.name), -g.count, g.name))
    found = [
        Evidence("operations that fell back", len(fallen), "count"),
        Evidence("operations placed on an accelerator", len(asked), "count"),
        Evidence("requested device", listed(n.requested for n in fallen), ""),
        Evidence("device they ran on", listed(n.actual for n in fallen), ""),
    ]
    if not facts.has_accelerator:
        found.append(Evidence("accelerators that the run used", 0, "count"))
    found.extend(
        Evidence(f"{g.name} operations", g.count, "count", _example(fallen, g.name))
        for g in types[:4]
    )
    if copied.bytes is not None:
        found.append(Evidence(COPIED_FOR_OPS, copied.bytes, "bytes"))
    return tuple(found)


def _example(fallen: list[Node], op: str) -> str:
    node = next(n for n in fallen if n.op == op)
    return f"{node.name} ({node.source})" if node.source else node.name


_FIX = Fix(
    "Turn off soft placement once: the error gives the reason for each operation. Then "
    "choose a data type or operation that the accelerator supports, or install a build that "
    "finds the device.",
    "config = tf.ConfigProto(allow_soft_placement=False,\n"
    "                        log_device_placement=True)\n"
    "# TF2: tf.config.set_soft_device_placement(False)",
    "unknown",
)
