"""Backward passes are recorded for a further one that never comes (`create_graph=True`).

## What it means
With `create_graph=True`, autograd records what the backward pass computes, so that gradients can
be differentiated again. Penalties on gradients, second-order methods and MAML need that. Here,
nothing differentiates the gradients.

## Why it costs
Each operation of the backward pass makes a node, keeps its inputs, and cannot work in place. That
takes about a microsecond of the host, which matters where operations are small. All of it stays in
memory until the gradients are freed.

## How it is measured
A backward pass disables gradients, unless it is recorded itself: then all operations inside its
nodes have a sequence number. If no later node comes from one of these operations, the recorded
graph is not used. The cost is a microsecond for each node of that graph; on an accelerator, only as
far as the device waits for the host. What the memory costs is not known.

## Fix
Leave `create_graph=True` out. `torch.func.grad` always records; `torch.autograd.grad` does not. If
the graph of the forward pass is needed twice, pass `retain_graph=True` instead.

## Fix risk
None while nothing differentiates the gradients: the gradients are the same.

## When it abstains
If operations are not recorded, and outside of PyTorch. If not every step has such a pass, it
reports nothing: other steps may use the gradients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.diagnoses.shared.backward_nodes import is_node
from stepwhy.diagnoses.shared.measure import by_name, times
from stepwhy.diagnoses.shared.program import is_pytorch
from stepwhy.diagnoses.shared.recorded_gradients import recorded_gradients
from stepwhy.diagnoses.shared.rule import Rule, saving
from stepwhy.findings import Edit, Evidence, Fix

if TYPE_CHECKING:
    from stepwhy.findings import Finding
    from stepwhy.passes.facts import Facts

RULE = Rule(
    id="double-backward",
    family="not needed",
    name="Backward passes recorded for nothing",
    found="Do not record the backward pass: nothing differentiates the gradients again",
    clear="No backward pass is recorded for nothing",
    needs=(("host-ops",), ("device-time",), ("steps",)),
)

SHARE = 0.05  # of the step; below it the gain is less than the variation between steps
# ns for each node of the recorded graph: to make it, to save what it needs, and to free it. In four
# programs of small operations, leaving it out gained 0.5, 0.9, 1.1 and 4 µs per node. In programs
# of large operations, it gained less than could be measured.
NODE_NS = 1_000
LEAST_SAVED = 0.6  # of the cost
_EVERY = 0.8  # of the steps; the first and the last one may be cut
_SHOWN = 3


def diagnose(facts: Facts) -> Finding:
    """Judge backward passes that are recorded, and whether that is used."""
    if not is_pytorch(facts):
        return RULE.not_applicable("Backward passes are recorded like this only in PyTorch.")
    if not is_node(facts).any():
        return RULE.no_data("backward-ops", "No operation of a backward pass is recorded.")
    recorded = recorded_gradients(facts)
    if recorded is None:
        return RULE.nothing()
    cost = min(round(NODE_NS * recorded.made * recorded.waited_for(facts)), facts.wall_ns)
    evidence = (
        Evidence("share of the step to record the backward pass", cost / facts.wall_ns, "fraction"),
        Evidence("steps with a recorded backward pass", recorded.of_steps, "fraction"),
        Evidence("nodes of the recorded graph per step", recorded.made, "count"),
        Evidence("of these, nodes that a later pass runs", recorded.used, "count"),
        *times(facts, "time of the recorded node",
               by_name(facts, facts.in_steady(recorded.nodes))[:_SHOWN]),
    )  # fmt: skip
    if recorded.used or recorded.of_steps < _EVERY or cost < SHARE * facts.wall_ns:
        return RULE.nothing(evidence[:4])
    gain = saving("record no backward pass", LEAST_SAVED * cost, cost)
    return RULE.finding(cost, evidence, _FIX, gain, Edit("ops", "gone"))


_FIX = Fix(
    "Leave create_graph=True out. In the record, no backward pass runs through the gradients, so "
    "their graph is not used. If the graph of the forward pass is needed twice, retain_graph=True "
    "keeps it. torch.func.grad always records the pass; torch.autograd.grad does not.",
    "loss.backward()          # without create_graph=True\n"
    "gradients = torch.autograd.grad(loss_of(batch), list(model.parameters()))",
    "none",
)
