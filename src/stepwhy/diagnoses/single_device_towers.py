"""Towers built for several devices share one device.

## What it means
The graph has several copies of the model, one per device, but all of them run on the same device.
`unfetched-tower` reports towers that never run.

## Why it costs
Towers on one device run one after the other: the step is as slow as without the other devices,
plus what combining the towers takes.

## How it is measured
Name scopes such as `tower_0`, `replica_1`, `clone_2` or `gpu_3` with nodes that compute. It is a
finding if all of them run on one device while another of its kind was present or requested. The
cost is the towers' time on the device, minus the time that its own tower would still need.

## Fix
Give each tower its own device, and place the variables separately.

## Fix risk
None for the result.

## When it abstains
Without a record of the placement. Does not apply to graphs without tower-like scopes, nor if only
one tower runs, or no other suitable device is known.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from stepwhy.diagnoses.shared.measure import mean_within, on_scale, time_of
from stepwhy.diagnoses.shared.placement import listed
from stepwhy.diagnoses.shared.rule import Rule, saving
from stepwhy.diagnoses.shared.slices import scopes_among
from stepwhy.findings import Evidence, Fix
from stepwhy.passes.gpus import framework_devices
from stepwhy.passes.placement import fields_of, placed_nodes, type_of
from stepwhy.trace import Kind

if TYPE_CHECKING:
    from stepwhy.findings import Finding
    from stepwhy.passes.facts import Facts
    from stepwhy.passes.placement import Node

    Towers = dict[str, list[Node]]

RULE = Rule(
    id="single-device-towers",
    family="placement",
    name="Towers on one device",
    found="Spread the towers over their devices",
    clear="Every tower runs on its own device",
    needs=(("placement",),),
)

FEWEST_TOWERS = 2  # one tower has nothing to share
LEAST_SAVED = 0.3  # of the cost; towers on separate devices still wait for their combination


def diagnose(facts: Facts) -> Finding:
    """Judge where the towers of the graph run."""
    towers = _towers(placed_nodes(facts))
    if len(towers) < FEWEST_TOWERS:
        return RULE.not_applicable("The graph has no towers (scopes such as 'tower_0').")
    ran = {name: own for name, own in towers.items() if any(n.actual for n in own)}
    if not ran:
        return RULE.no_data("None of the towers ran in this trace.")
    if len(ran) < FEWEST_TOWERS:
        return RULE.not_applicable("Only one of the towers runs.")
    devices = {n.actual for own in ran.values() for n in own if n.actual}
    if len(devices) > 1:
        return RULE.nothing((Evidence("devices that run the towers", len(devices), "count"),))
    if not _others(facts, towers, devices):
        return RULE.not_applicable("All towers run on one device, and the trace shows no other.")
    return _shared(facts, ran, devices)


def _towers(nodes: list[Node]) -> Towers:
    """Heavy nodes by tower; all computing nodes of a tower without heavy ones."""
    computing: Towers = defaultdict(list)
    for node in nodes:
        tower = node.tower
        if tower and node.is_compute:
            computing[tower].append(node)
    return {name: [n for n in own if n.is_heavy] or own for name, own in sorted(computing.items())}


def _others(facts: Facts, towers: Towers, devices: set[str]) -> list[str]:
    """Unused devices of the same kind that were present or requested."""
    kind = type_of(next(iter(devices)))
    names = facts.trace.devices.name[framework_devices(facts.trace)]
    present = [facts.trace.string(int(name)) for name in names]
    named = [d for own in towers.values() for n in own for d in (n.requested, n.outer)]
    of_kind = [d for d in dict.fromkeys([*present, *named]) if type_of(d) in {kind, ""}]
    return [d for d in of_kind if not any(_covers(d, used) for used in devices)]


def _covers(request: str, device: str) -> bool:
    actual = fields_of(device)
    return all(actual.get(key) == value for key, value in fields_of(request).items())


def _shared(facts: Facts, ran: Towers, devices: set[str]) -> Finding:
    names = frozenset(n.name for own in ran.values() for n in own)
    rows = scopes_among(facts, names, Kind.KERNEL)
    cost = None
    if len(rows):
        together = on_scale(facts, mean_within(facts, time_of(facts, rows)), "compute")
        cost = round(together * (1 - 1 / len(ran)))
    evidence = (
        Evidence("towers", len(ran), "count", listed(ran)),
        Evidence("the device that runs all of them", next(iter(devices)), ""),
        Evidence("devices that none of them uses", listed(_others(facts, ran, devices)), ""),
        Evidence("operations of the towers", sum(map(len, ran.values())), "count"),
    )
    gain = saving("spread towers over devices", LEAST_SAVED * cost, cost) if cost else None
    return RULE.finding(cost, evidence, _SPREAD, gain)


_SPREAD = Fix(
    "Give each tower its own device, and use inner device scopes for variables only.",
    "for i in range(towers):\n"
    '    with tf.device(f"/gpu:{i}"), tf.name_scope(f"tower_{i}"):\n'
    "        losses.append(tower(i))",
    "none",
)
