"""The backward pass runs on a different device than its forward pass.

## What it means
The layers are placed on their devices, but the gradients are created outside those scopes, for
example by an optimizer that minimises the loss of all towers. By default, gradient operations
follow the scope in which they are created, not the operation that they differentiate.

## Why it costs
The backward pass is more than half of the work. It runs on one device, one tower after the other,
while the devices of the forward pass are idle, and every activation that it needs is copied.

## How it is measured
A gradient operation names its forward operation ('gradients/tower_0/Conv2D_grad/...'). The
diagnosis counts the pairs of any types that ran on different devices, the copies to and from those
gradient operations, and the time in which they run while the devices of their forward operations
are idle. An operation that was fused into another counts with the device that it requested.
Forward operations on the wrong device are reported by `misplaced-op`.

## Fix
Colocate gradients with their operations, or compute them inside the scope of each tower.

## Fix risk
None for the result. The activations stay on the towers' devices and need memory there.

## When it abstains
Without a record of the placement. Does not apply to graphs without gradients, if all operations
run on one device, or if the forward operations are on the wrong device. `incomplete` if a backward
pass runs, and no name tells what it differentiates.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from stepwhy.analyse.program.placement import (
    CopyTotals,
    Node,
    conflicts,
    forward_of,
    misplaced_names,
    placed_nodes,
)
from stepwhy.diagnose.shared.placement import (
    COPIED_FOR_OPS,
    SAME_CORES,
    SHARE,
    Elsewhere,
    by_time,
    elsewhere,
    listed,
    share_their_cores,
)
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Rule, saving
from stepwhy.trace import Kind, Phase

RULE = Rule(
    __name__,
    name="Gradients on a different device than their operations",
    found="Compute gradients on the device of their operations",
    clear="Gradients run on the device of their operations",
    needs=(("placement",),),
)

LEAST_SAVED = 0.3  # of the cost; the other devices need time for the backward pass, too


class _Pair(NamedTuple):
    forward: Node
    backward: Node

    @property
    def is_apart(self) -> bool:
        return conflicts(self.forward.place, self.backward.actual)


def diagnose(facts: Facts) -> Finding:
    """Judge every gradient operation against its forward operation."""
    nodes = placed_nodes(facts)
    if len({n.actual for n in nodes if n.actual}) == 1:
        return RULE.not_applicable("All operations run on the only device.")
    every = _pairs(nodes)
    if not every:
        return _unpaired(facts)
    wrong = misplaced_names(facts)
    pairs = [p for p in every if not (p.is_apart and p.forward.name in wrong)]
    if not pairs:
        reason = "The forward operations run on another device than requested (misplaced-op)."
        return RULE.not_applicable(reason)
    apart = [p for p in pairs if p.is_apart]
    counted = Evidence("gradient operations with their operation", len(pairs), "count")
    cost = elsewhere(facts, [p.backward for p in apart], {p.forward.place for p in apart})
    ns, share = cost.cost_ns(facts), len(apart) / len(pairs)
    # By the time they cost, or by their share of all.
    matters = share >= SHARE if ns is None else ns >= SHARE * facts.wall_ns
    if not apart or not matters:
        return RULE.nothing((counted,))
    return _found(facts, apart, cost)


def _unpaired(facts: Facts) -> Finding:
    if (facts.phases[facts.slices(Kind.KERNEL, steady=True)] == Phase.BACKWARD).any():
        reason = "The names of the gradient operations do not tell what they differentiate."
        return RULE.incomplete("graph-ops", reason)
    return RULE.not_applicable("The graph has no gradients.")


def _found(facts: Facts, apart: list[_Pair], cost: Elsewhere) -> Finding:
    ns, gain = cost.cost_ns(facts), None
    devices = {d for p in apart for d in (p.forward.place, p.backward.actual)}
    shared = share_their_cores(devices)
    if ns:
        least = 0 if shared else LEAST_SAVED * ns
        gain = saving("colocate gradients with their operations", least, ns)
    edit = None if shared else Edit("ops", "moved", device=apart[0].forward.place)
    return RULE.finding(
        ns, _evidence(facts, apart, cost.copies, shared=shared), RULE.fix(), gain, edit
    )


def _pairs(nodes: list[Node]) -> list[_Pair]:
    """Gradient operations that compute, with the operation that they differentiate."""
    named = {n.name: n for n in nodes}
    devices = {n.actual for n in nodes if n.actual}
    pairs = []
    for node in nodes:
        forward = forward_of(node.name, named) if node.actual and node.is_compute else None
        if forward is not None and forward.is_compute and _is_known(forward.place, devices):
            pairs.append(_Pair(forward, node))
    return pairs


def _is_known(place: str, devices: Collection[str]) -> bool:
    """Whether a place is among the run's devices; a fused operation may request one that is not."""
    return bool(place) and any(not conflicts(place, device) for device in devices)


def _evidence(
    facts: Facts, apart: list[_Pair], copied: CopyTotals, *, shared: bool
) -> tuple[Evidence, ...]:
    backward = [p.backward for p in apart]
    found = [
        Evidence("gradient operations on another device", len(apart), "count"),
        Evidence("device of their operations", listed(p.forward.place for p in apart), ""),
        Evidence("device of the gradients", listed(n.actual for n in backward), ""),
        Evidence("copies to and from them per step", copied.count, "count"),
    ]
    if copied.bytes is not None:
        found.append(Evidence(COPIED_FOR_OPS, copied.bytes, "bytes"))
    lines = listed(n.line for n in backward)
    if lines:
        found.append(Evidence("responsible device scope", lines, ""))
    if shared:
        found.append(Evidence("these devices", SAME_CORES, ""))
    types = by_time(facts, backward)
    found.extend(Evidence(f"{g.name} operations", g.count, "count") for g in types[:4])
    return tuple(found)
