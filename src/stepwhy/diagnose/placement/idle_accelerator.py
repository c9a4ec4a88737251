"""The machine has an accelerator, but the steps compute on the CPU.

## What it means
No kernel runs on the accelerator, and nothing is copied to it. The model and its batches were
never moved there, or the installed build of the framework does not support it.

## Why it costs
An accelerator multiplies matrices ten to a thousand times as fast as a CPU.

## How it is measured
PyTorch's profiler lists the accelerators of the machine. If it recorded calls to their API, but
none that launches or copies anything, the run did not use them. Neither did it if operations on
large tensors take as long as a CPU does, where a launch would take microseconds. In a run of
`stepwhy run`, the GPU driver says which GPUs exist. The cost is the time in which the CPU computes.
No saving is predicted, because the speed of the accelerator is unknown.

## Fix
Move the model and each batch to the device.

## Fix risk
Sums are added up in another order, so the last digits of results change.

## When it abstains
If the record does not say which accelerators the machine has, or whether the run used them.
"""

from __future__ import annotations

from stepwhy.analyse.program.gpus import sampled_gpus
from stepwhy.diagnose.shared.rule import Evidence, Facts, Finding, Rule
from stepwhy.trace import NULL

RULE = Rule(
    __name__,
    name="Accelerators that nothing runs on",
    found="Move the model to the accelerator: all of it runs on the CPU",
    clear="The steps run on an accelerator",
    needs=(("steps",),),
    least_share=0.2,  # of the step; an accelerator does not shorten the rest
)


def diagnose(facts: Facts) -> Finding:
    """Judge whether the steps leave an accelerator of the machine without work."""
    if facts.has_accelerator:
        return RULE.nothing()
    model = _idle_model(facts)
    if not model:
        return RULE.no_data(
            "accelerators", "The record does not say which accelerators the machine has."
        )
    cost = facts.breakdown["compute"]
    evidence = (
        Evidence("accelerator without work", model, ""),
        Evidence("share of the step in which the CPU computes", facts.share("compute"), "fraction"),
    )
    fix = RULE.fix(_FIXES.get(facts.trace.meta.framework, "any"))
    return RULE.judge(facts, cost, evidence, fix)


def _idle_model(facts: Facts) -> str:
    """Model of an accelerator that the run gave no work; '' if none is known."""
    trace = facts.trace
    if trace.meta.device_expected:
        return ""
    if trace.meta.idle_accelerator:
        return trace.meta.idle_accelerator
    models = (int(trace.devices.model[row]) for row, _ in sampled_gpus(trace))
    return next((trace.string(model) for model in models if model != NULL), "")


_FIXES = {"pytorch": "torch", "tensorflow": "tensorflow", "jax": "jax"}
