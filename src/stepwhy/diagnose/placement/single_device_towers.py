"""Towers built for several devices share one device.

## What it means
The graph has several copies of the model, one per device, but all of them run on the same device.
`unfetched-tower` reports towers that never run.

## Why it costs
Towers on one device run one after the other: the step is as slow as without the other devices,
plus what combining the towers takes. A common cause in a cluster: `tf.train.replica_device_setter`
without `worker_device` places everything but variables on the first worker.

## How it is measured
Name scopes such as `tower_0`, `replica_1`, `clone_2` or `gpu_3` with nodes that compute. It is a
finding if each of them spends most of its time, whatever the types of its operations, on the same
device while another of its kind and job was present or requested. Where no time was recorded, the
device of most operations counts. The cost is the towers' time on the device, minus the time that
its own tower would still need.

## Fix
Give each tower its own device, and place the variables separately.

## Fix risk
None for the result.

## When it abstains
Without a record of the placement. Does not apply to graphs without tower-like scopes, nor if only
one tower runs, or no other suitable device is known. CPU devices of one process are no choice: they
share their threads.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from stepwhy.analyse.program.gpus import framework_devices
from stepwhy.analyse.program.placement import (
    Node,
    fields_of,
    misplaced,
    node_times,
    placed_nodes,
    type_of,
)
from stepwhy.diagnose.shared.measure import mean_within, on_scale, time_of
from stepwhy.diagnose.shared.placement import SHARE, listed
from stepwhy.diagnose.shared.rule import Evidence, Facts, Finding, Rule, saving
from stepwhy.diagnose.shared.slices import scopes_among
from stepwhy.diagnose.shared.work_lines import times_at_lines
from stepwhy.trace import Kind

Towers = dict[str, list[Node]]

RULE = Rule(
    __name__,
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
        return RULE.no_data("towers", "None of the towers ran in this trace.")
    if len(ran) < FEWEST_TOWERS:
        return RULE.not_applicable("Only one of the towers runs.")
    spent = node_times(facts)
    devices = {_main_device(own, spent) for own in ran.values()}
    if len(devices) > 1 and _is_moved(facts, spent):
        return RULE.not_applicable("A device scope moves part of the towers (misplaced-op).")
    if len(devices) > 1:
        return RULE.nothing((Evidence("devices that run the towers", len(devices), "count"),))
    device = devices.pop()
    others = _others(facts, towers, device)
    if not others:
        return RULE.not_applicable("All towers run on one device, and the trace shows no other.")
    return _shared(facts, ran, device, others)


def _is_moved(facts: Facts, spent: Mapping[str, int]) -> bool:
    """Whether an inner scope moves a noticeable part of the towers to another device."""
    moved = [n.name for n in misplaced(facts) if n.tower]
    if not spent:
        return bool(moved)
    return sum(spent.get(name, 0) for name in moved) >= SHARE * facts.wall_ns


def _towers(nodes: list[Node]) -> Towers:
    """Computing nodes by tower."""
    computing: Towers = defaultdict(list)
    for node in nodes:
        tower = node.tower
        if tower and node.is_compute:
            computing[tower].append(node)
    return dict(sorted(computing.items()))


def _main_device(nodes: list[Node], spent: Mapping[str, int]) -> str:
    """Device on which a tower spends most time; without times, that of most of its operations."""
    devices: Counter[str] = Counter()
    is_timed = any(n.name in spent for n in nodes)
    for node in nodes:
        if node.actual:
            devices[node.actual] += spent.get(node.name, 0) if is_timed else 1
    return devices.most_common(1)[0][0]


def _others(facts: Facts, towers: Towers, device: str) -> list[str]:
    """Unused devices that towers could use, present or requested."""
    kind = type_of(device)
    names = facts.trace.devices.name[framework_devices(facts.trace)]
    present = [facts.trace.string(int(name)) for name in names]
    named = [d for own in towers.values() for n in own for d in (n.requested, n.outer)]
    of_kind = [d for d in dict.fromkeys([*present, *named]) if type_of(d) in {kind, ""}]
    return [d for d in of_kind if not _covers(d, device) and _computes_beside(d, device)]


def _computes_beside(other: str, device: str) -> bool:
    """Whether a device could run a tower at the same time as another.

    Devices of other jobs are parameter servers; CPU devices of one process share their threads.
    """
    one, two = fields_of(other), fields_of(device)
    if one.get("job", two.get("job")) != two.get("job", one.get("job")):
        return False
    return type_of(device) != "CPU" or one.get("task", two.get("task")) != two.get("task")


def _covers(request: str, device: str) -> bool:
    actual = fields_of(device)
    return all(actual.get(key) == value for key, value in fields_of(request).items())


def _shared(facts: Facts, ran: Towers, device: str, others: list[str]) -> Finding:
    names = frozenset(n.name for own in ran.values() for n in own if n.actual == device)
    rows = scopes_among(facts, names, Kind.KERNEL)
    cost = None
    if len(rows):
        together = on_scale(facts, mean_within(facts, time_of(facts, rows)), "compute")
        cost = round(together * (1 - 1 / len(ran)))
    evidence = (
        Evidence("towers", len(ran), "count", listed(ran)),
        Evidence("the device that runs all of them", device, ""),
        Evidence("devices that none of them uses", listed(others), ""),
        Evidence("operations of the towers on it", len(names), "count"),
        *times_at_lines(facts, rows),
    )
    gain = saving("spread towers over devices", LEAST_SAVED * cost, cost) if cost else None
    in_cluster = fields_of(device).get("job", "localhost") != "localhost"
    return RULE.finding(cost, evidence, RULE.fix("spread-tasks" if in_cluster else "spread"), gain)
