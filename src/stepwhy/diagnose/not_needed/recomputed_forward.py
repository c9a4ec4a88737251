"""Layers run again inside the backward pass, although memory to keep their results is free.

## What it means
Activation checkpointing frees what layers have computed in the forward pass, and runs the layers
again when the backward pass needs it. Large models need that to fit into memory. Here, much of the
memory stays free.

## Why it costs
The checkpointed layers run twice in each step. If all layers are checkpointed, that is about a
third more computation.

## How it is measured
The backward pass disables gradients. Operations inside one of its nodes that run with gradients
enabled, in the same order as operations of the forward pass, are layers that run again. This sees
both kinds of `torch.utils.checkpoint`, and libraries that do the same. The cost is the time of
these operations: on an accelerator, of their kernels, and of their launches where the device waits
for them. Backward passes that are recorded for another one (`create_graph=True`), hooks, and custom
functions that compute something else do not count.

What is free is the capacity without the peak of the process, or of its device. How much memory the
activations need is not in the record.

## Fix
Checkpoint fewer layers, as long as the rest fits into memory. Every second layer costs half as
much.

## Fix risk
The step needs more memory. Results stay the same.

## When it abstains
If operations are not recorded, and outside of PyTorch. Code of `torch.compile` chooses what it
computes again when it is compiled, which no record shows. If less than a quarter of the memory is
free, it reports nothing. If the record does not show how much is free, it says so, and promises no
saving.
"""

from __future__ import annotations

import numpy as np

from stepwhy.base.columns.types import AnyRows
from stepwhy.diagnose.not_needed.shared.repeated_layers import RepeatedLayers, repeated_layers
from stepwhy.diagnose.shared.backward_nodes import is_node
from stepwhy.diagnose.shared.measure import by_name, times
from stepwhy.diagnose.shared.memory_room import MemoryRoom, memory_room
from stepwhy.diagnose.shared.program import is_pytorch
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Rule, saving
from stepwhy.diagnose.shared.work_lines import times_at_lines

RULE = Rule(
    __name__,
    name="Layers that run again in the backward pass",
    found="Keep the results of layers, instead of running them again in the backward pass",
    clear="No layer runs again in the backward pass, or memory is scarce",
    needs=(("host-ops",), ("device-time",), ("steps",)),
    least_share=0.05,  # of the step; below it the gain is less than the variation between steps
    edit=Edit("ops", "gone"),
)

FREE = 0.25  # of the memory; with less, what checkpointing saves may be needed
LEAST_SAVED = 0.6  # of the cost; kept results have to be read from memory
_SHOWN = 3


def diagnose(facts: Facts) -> Finding:
    """Judge the time of layers that run again."""
    if not is_pytorch(facts):
        return RULE.not_applicable("Layers that run again are recognised only in PyTorch.")
    if not is_node(facts).any():
        return RULE.no_data("backward-ops", "No operation of a backward pass is recorded.")
    layers = repeated_layers(facts)
    if layers is None:
        return RULE.nothing()
    cost, room = layers.cost_ns(facts), memory_room(facts)
    evidence = _evidence(facts, layers, cost, room)
    is_scarce = room is not None and room.free < FREE
    least = 0.0 if room is None else LEAST_SAVED * cost
    gain = saving("keep the results of layers", least, cost)
    fix = RULE.fix("unknown" if room is None else "free")
    return RULE.judge(facts, cost, evidence, fix, unless=is_scarce, gain=gain)


def _evidence(
    facts: Facts, layers: RepeatedLayers, cost: int, room: MemoryRoom | None
) -> tuple[Evidence, ...]:
    what, shown = "time of the operation, run again", facts.in_steady(layers.rows)
    if facts.has_accelerator:
        what, shown = "time of the kernel, run again", layers.work
    return (
        Evidence("share of the step in layers that run again", cost / facts.wall_ns, "fraction"),
        *(_UNSEEN if room is None else room.evidence()),
        Evidence("operations that run again per step", _per_step(facts, layers.rows), "count"),
        Evidence("regions of layers that run again per step",
                 _per_step(facts, np.unique(layers.nodes)), "count"),
        *times(facts, what, by_name(facts, shown)[:_SHOWN]),
        *times_at_lines(facts, shown),
    )  # fmt: skip


def _per_step(facts: Facts, rows: AnyRows) -> float:
    """How many of some host slices a step has; where devices lag behind, in the whole record."""
    if facts.has_accelerator:
        return len(rows) / max(len(facts.steps.starts), 1)
    return len(facts.in_steady(rows)) / max(facts.steady_count, 1)


_UNSEEN = (Evidence("memory that stays free", "not recorded", ""),)
