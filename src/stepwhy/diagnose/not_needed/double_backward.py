"""Gradients are differentiated again in every step for a penalty, or recorded for nothing.

## What it means
With `create_graph=True`, autograd records what the backward pass computes, so that gradients can
be differentiated again. Penalties on gradients, second-order methods and MAML need that. Here, each
step does so only to add a number made of the gradients to the loss, such as the mean of their
norms, or nothing differentiates them at all.

## Why it costs
A penalty takes a backward pass of its own, and another one through that; often also a forward pass
to have something to differentiate. A recorded pass makes a node for each operation, keeps its
inputs, copies gradients, and cannot work in place. All of it stays in memory until the gradients
are freed.

## How it is measured
A backward pass disables gradients, unless it is recorded itself: then all operations inside its
nodes have a sequence number. The cost of a penalty is the time of these nodes, of later nodes that
come from one of their operations, and, if nothing else differentiates the result of the layers, of
their forward pass. In one step, `stepwhy run` looks at what the program does with the gradients. If
it compares them with data, takes them apart or computes with them, the step needs them.

If no later node comes from a recorded operation, the graph is not used. The cost is then the time
to copy gradients, and a microsecond for each node of that graph; on an accelerator, only as far as
the device waits for the host. What the memory costs is not known.

## Fix
Add the penalty in every 16th step with 16 times its weight, as StyleGAN2 does, and leave it out
where its weight is zero. If nothing uses the graph, leave `create_graph=True` out.
`torch.func.grad` always records; `torch.autograd.grad` does not. If the graph of the forward pass
is needed twice, pass `retain_graph=True` instead.

## Fix risk
A penalty that is added more rarely changes the training; watch its value. There is none while
nothing differentiates the gradients: they are the same.

## When it abstains
If operations are not recorded, and outside of PyTorch. If not every step has such a pass, it
reports nothing. For a graph that is used, also without a step that was looked at: in traces of
other profilers, in runs with `torch.compile`, CUDA graphs, several processes, or subclasses of
tensors.
"""

from __future__ import annotations

from typing import NamedTuple

from stepwhy.analyse.steps.stalls import rows_of_kinds
from stepwhy.diagnose.not_needed.shared.recorded_gradients import (
    RecordedGradients,
    recorded_gradients,
)
from stepwhy.diagnose.shared.backward_nodes import is_node
from stepwhy.diagnose.shared.measure import by_name, times
from stepwhy.diagnose.shared.program import is_pytorch
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Rule
from stepwhy.trace import NULL

RULE = Rule(
    __name__,
    name="Gradients differentiated again in every step",
    found="Do not record the backward pass: nothing differentiates the gradients again",
    clear="No step differentiates gradients again for a penalty alone, or records them for nothing",
    needs=(("host-ops",), ("device-time",), ("steps",)),
    least_share=0.05,  # of the step; below it the gain is less than the variation between steps
    least_saved=0.6,  # of the cost
    change="record no backward pass",
    edit=Edit("ops", "gone"),
)

# ns for each node of the recorded graph: to make it, to save what it needs, and to free it. In four
# programs of small operations, leaving it out gained 0.5, 0.9, 1.1 and 4 µs per node. In programs
# of large operations, it gained less than could be measured.
NODE_NS = 1_000
_EVERY = 0.8  # of the steps; the first and the last one may be cut
_SHOWN = 3


def diagnose(facts: Facts) -> Finding:
    """Judge backward passes that are recorded, and what that is used for."""
    if not is_pytorch(facts):
        return RULE.not_applicable("Backward passes are recorded in enough detail only in PyTorch.")
    if not is_node(facts).any():
        return RULE.no_data("backward-ops", "No operation of a backward pass is recorded.")
    recorded = recorded_gradients(facts)
    if recorded is None:
        return RULE.nothing()
    use = gradient_use(facts)
    # What recording takes beside the backward pass itself.
    nodes_ns = round(NODE_NS * recorded.made * recorded.waited_for(facts))
    recording_ns = min(nodes_ns + recorded.copying_ns(facts), facts.wall_ns)
    cost = recorded.cost_ns(facts) if recorded.used else recording_ns
    evidence = _evidence(facts, recorded, cost, use)
    if recorded.of_steps < _EVERY or cost < RULE.least_share * facts.wall_ns:
        return RULE.nothing(evidence[:4])
    if not recorded.used:
        return RULE.finding(cost, evidence, RULE.fix())
    if use is None:
        return RULE.incomplete("semantic-step", _UNKNOWN_USE, evidence[:4])
    if use.kind == OTHER:
        return RULE.nothing(evidence[:4])
    if use.kind == NO_WEIGHT:
        return RULE.finding(cost, evidence, RULE.fix("without-weight"), title=_WITHOUT_WEIGHT_TITLE)
    return RULE.finding(cost, evidence, RULE.fix("rarely"), title=_RARELY_TITLE)


def _evidence(
    facts: Facts, recorded: RecordedGradients, cost: int, use: GradientUse | None
) -> tuple[Evidence, ...]:
    what = "differentiate gradients again" if recorded.used else "record the backward pass"
    line = use.line if use and recorded.used else ""
    return (
        Evidence(f"share of the step to {what}", cost / facts.wall_ns, "fraction", line),
        Evidence("steps with a recorded backward pass", recorded.of_steps, "fraction"),
        Evidence("nodes of the recorded graph per step", recorded.made, "count"),
        Evidence("of these, nodes that a later pass runs", recorded.used, "count"),
        *times(facts, "time of the recorded node",
               by_name(facts, facts.in_steady(recorded.nodes))[:_SHOWN]),
    )  # fmt: skip


_UNKNOWN_USE = (
    "The trace does not record whether the step needs the gradients for more than a penalty."
)


# What a step does with gradients that are recorded, as `stepwhy run` has seen it.
# Source: `stepwhy.record.torch.gradient_use`.
_EVENT = "gradient-use"
NO_WEIGHT = "penalty without weight"
"""They are reduced to a number, which is multiplied by zero."""
OTHER = "other"
"""The step needs them for more than a penalty."""


class GradientUse(NamedTuple):
    """What the step does with them.

    Args:
        kind: One of the constants above, or 'penalty'.
        line: Line of the program that reads them first; '' if unknown.
    """

    kind: str
    line: str


def gradient_use(facts: Facts) -> GradientUse | None:
    """What the step does with recorded gradients; None if it was not seen."""
    rows, events = rows_of_kinds(facts.trace, _EVENT), facts.trace.events
    if not len(rows):
        return None
    name, source = int(events.name[rows[-1]]), int(events.source[rows[-1]])
    line = "" if source == NULL else facts.trace.string(source)
    return GradientUse(facts.trace.string(name), line)


_RARELY_TITLE = "Penalise gradients in some steps: every step differentiates them again"
_WITHOUT_WEIGHT_TITLE = "Leave out the penalty on gradients: its weight is zero"
