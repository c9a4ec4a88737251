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
diagnosis counts the pairs that ran on different devices, the copies to and from those gradient
operations, and the time in which they run while the devices of their forward operations are idle.
Forward operations on the wrong device are reported by `misplaced-op`.

## Fix
Colocate gradients with their operations, or compute them inside the scope of each tower.

## Fix risk
None for the result. The activations stay on the towers' devices and need memory there.

## When it abstains
Without a record of the placement. Does not apply to graphs without gradients, nor if all operations
run on one device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stepwhy.diagnoses.shared.measure import mean_within, on_scale, time_of
from stepwhy.diagnoses.shared.placement import COPIED_FOR_OPS, IN_GRADIENTS, by_op, listed
from stepwhy.diagnoses.shared.rule import Rule, saving
from stepwhy.diagnoses.shared.slices import scopes_among
from stepwhy.findings import Edit, Evidence, Fix
from stepwhy.passes.placement import copies_around, is_heavy, misplaced, placed_nodes
from stepwhy.patterns import regex
from stepwhy.trace import Kind

if TYPE_CHECKING:
    from stepwhy.findings import Finding
    from stepwhy.passes.facts import Facts
    from stepwhy.passes.placement import CopyTotals, Node

RULE = Rule(
    id="uncolocated-gradients",
    family="placement",
    name="Gradients on a different device than their operations",
    found="Compute gradients on the device of their operations",
    clear="Gradients run on the device of their operations",
    needs=(("placement",),),
)

SHARE = 0.05  # of the step; a single small gradient elsewhere changes nothing
LEAST_SAVED = 0.3  # of the cost; the other devices need time for the backward pass, too

# `tf.gradients` names the scope of an operation's gradient after it; its own scope is 'gradients'.
_GRADIENT = regex(IN_GRADIENTS.pattern + r"(?P<forward>.+)_grad/")


class _Pair(NamedTuple):
    forward: Node
    backward: Node


def diagnose(facts: Facts) -> Finding:
    """Judge every gradient operation against its forward operation."""
    nodes = placed_nodes(facts)
    if len({n.actual for n in nodes if n.actual}) == 1:
        return RULE.not_applicable("All operations run on the only device.")
    pairs = _pairs(nodes)
    if not pairs:
        return RULE.not_applicable("The graph has no gradients.")
    apart = [p for p in pairs if p.forward.actual != p.backward.actual]
    counted = Evidence("gradient operations with their operation", len(pairs), "count")
    if not any(p.backward.is_heavy for p in apart):
        return RULE.nothing((counted,))
    copied = copies_around(facts, [p.backward for p in apart])
    cost = _cost_ns(facts, apart, copied)
    if cost is not None and cost < SHARE * facts.wall_ns:
        return RULE.nothing((counted,))
    gain = None
    if cost:
        gain = saving("colocate gradients with their operations", LEAST_SAVED * cost, cost)
    return RULE.finding(
        cost,
        _evidence(apart, copied),
        _FIX,
        gain,
        Edit("ops", "moved", device=apart[0].forward.actual),
    )


def _pairs(nodes: list[Node]) -> list[_Pair]:
    """Gradient operations that compute, with the operation that they differentiate."""
    ran = {n.name: n for n in nodes if n.actual}
    wrong = {n.name for n in misplaced(nodes)}
    pairs = []
    for node in ran.values():
        match = _GRADIENT.search(node.name) if node.is_compute else None
        forward = ran.get(match["forward"]) if match else None
        if forward is not None and forward.name not in wrong:
            pairs.append(_Pair(forward, node))
    return pairs


def _cost_ns(facts: Facts, apart: list[_Pair], copied: CopyTotals) -> int | None:
    """Time in which only the gradients compute, plus the exposed time of their copies, ns."""
    names = frozenset(p.backward.name for p in apart)
    rows = scopes_among(facts, names, Kind.KERNEL)
    if not len(rows):
        return None
    time = time_of(facts, rows)
    theirs = {p.forward.actual for p in apart}
    for activity in facts.activities:
        if activity.name in theirs:
            time = time - activity.compute
    alone = on_scale(facts, mean_within(facts, time), "compute")
    exposed = facts.breakdown["transfer"] + facts.breakdown["communication"]
    return min(alone + min(copied.dur_ns or 0, exposed), facts.wall_ns)


def _evidence(apart: list[_Pair], copied: CopyTotals) -> tuple[Evidence, ...]:
    backward = [p.backward for p in apart]
    types = sorted(by_op(backward), key=lambda g: (not is_heavy(g.name), -g.count, g.name))
    found = [
        Evidence("gradient operations on another device", len(apart), "count"),
        Evidence("device of their operations", listed(p.forward.actual for p in apart), ""),
        Evidence("device of the gradients", listed(n.actual for n in backward), ""),
        Evidence("copies to and from them per step", copied.count, "count"),
    ]
    if copied.bytes is not None:
        found.append(Evidence(COPIED_FOR_OPS, copied.bytes, "bytes"))
    lines = listed(n.line for n in backward)
    if lines:
        found.append(Evidence("responsible device scope", lines, ""))
    found.extend(Evidence(f"{g.name} operations", g.count, "count") for g in types[:4])
    return tuple(found)


_FIX = Fix(
    "Colocate the gradients with their operations, or compute them inside the scope of each tower.",
    "train = optimizer.minimize(loss, colocate_gradients_with_ops=True)\n"
    "# or, inside `with tf.device(tower):`\n"
    "gradients = optimizer.compute_gradients(tower_loss)",
    "none",
)
