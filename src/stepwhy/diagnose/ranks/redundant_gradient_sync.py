"""Ranks exchange gradients after each micro-batch, not once per optimizer step.

## What it means
Gradients of several micro-batches are accumulated before an optimizer step, and
DistributedDataParallel exchanges them in every backward pass.

## Why it costs
Only the sum is used. With n micro-batches, n - 1 of the n exchanges are unnecessary, and each waits
for the slowest rank.

## How it is measured
Between two optimizer steps, stepwhy counts the forward passes of DistributedDataParallel and, after
each of them, the gradients that it copies for the exchange, or the exchanges in the backward pass.
If several forward passes are followed by the same number, all exchanges but the last one are
unnecessary. The cost is their share of the time in which only all-reduces run; on a CPU, also of
the time to copy the gradients.

## Fix
Run all micro-batches but the last one in `no_sync()`, including the forward pass.

## Fix risk
None: the sum of the gradients is the same. Lightning, Accelerate and the Trainer of Hugging Face do
it themselves if gradient accumulation is configured there.

## When it abstains
On a run without DistributedDataParallel, or if the trace records no framework code on the host.
"""

from __future__ import annotations

from stepwhy.analyse.steps.stalls import rows_of_kinds
from stepwhy.diagnose.shared.ddp import FORWARD, SCALED, all_reduce_ns, exchanges_per_update
from stepwhy.diagnose.shared.measure import on_scale
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Rule
from stepwhy.diagnose.shared.slices import named

RULE = Rule(
    __name__,
    name="Gradient exchange for each micro-batch",
    found="Exchange gradients once per optimizer step",
    clear="Gradients are exchanged once per optimizer step",
    needs=(("host-ops",), ("steps",)),
    refines="exposed-communication",
    least_share=0.05,  # of the step; below it the exchanges overlap with computation
    least_saved=0.5,  # of the cost; what the last exchange waits for remains
    change="exchange gradients once",
    edit=Edit("communication", "gone"),
)


def diagnose(facts: Facts) -> Finding:
    """Judge how often gradients are exchanged per optimizer step."""
    forward = named(facts, FORWARD)
    if not len(forward):
        return RULE.not_applicable("The run does not use DistributedDataParallel.")
    exchanges = exchanges_per_update(facts)
    if exchanges is None:
        return RULE.no_data(
            "backward-ops", "The trace does not show when DistributedDataParallel copies gradients."
        )
    evidence = (
        Evidence(
            "exchanges of all gradients per optimizer step", exchanges, "count", _backward(facts)
        ),
        Evidence("forward passes per step", len(forward) / facts.steady_count, "count"),
    )
    # Time in which only all-reduces run, and on a CPU, to copy gradients for them.
    copies = facts.trace.slices.dur_ns[named(facts, SCALED)]
    copied_ns = 0 if facts.has_accelerator else facts.mean_ns(copies.sum())
    exchange_ns = all_reduce_ns(facts) + on_scale(facts, copied_ns)
    cost = round(exchange_ns * (1 - 1 / exchanges))
    return RULE.judge(facts, cost, evidence, RULE.fix(), unless=exchanges < 2)


def _backward(facts: Facts) -> str:
    """The line that calls the backward pass, in which gradients are exchanged; '' if unknown."""
    walks = rows_of_kinds(facts.trace, "gradient-walk")
    return facts.trace.string(int(facts.trace.events.source[walks[-1]])) if len(walks) else ""
