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
from stepwhy.diagnose.shared.rule import Evidence, Facts, Finding, Fix, Rule
from stepwhy.trace import NULL

RULE = Rule(
    __name__,
    name="Accelerators that nothing runs on",
    found="Move the model to the accelerator: all of it runs on the CPU",
    clear="The steps run on an accelerator",
    needs=(("steps",),),
)

SHARE = 0.2  # of the step; an accelerator does not shorten the rest


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
    if cost < SHARE * facts.wall_ns:
        return RULE.nothing(evidence)
    return RULE.finding(cost, evidence, _FIXES.get(facts.trace.meta.framework, _ANY))


def _idle_model(facts: Facts) -> str:
    """Model of an accelerator that the run gave no work; '' if none is known."""
    trace = facts.trace
    if trace.meta.device_expected:
        return ""
    if trace.meta.idle_accelerator:
        return trace.meta.idle_accelerator
    models = (int(trace.devices.model[row]) for row, _ in sampled_gpus(trace))
    return next((trace.string(model) for model in models if model != NULL), "")


_ANY = Fix(
    "Move the model and each batch to the accelerator, and install a build of the framework that "
    "supports it.",
    "",
    "changes-numerics",
)
_TORCH = Fix(
    "Move the model to the device once, before the optimizer is made, and each batch in the loop. "
    "If torch.cuda.is_available() is False, this build of PyTorch does not support the device.",
    'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n'
    "model = model.to(device)\n"
    "for inputs, labels in loader:\n"
    "    inputs, labels = inputs.to(device), labels.to(device)",
    "changes-numerics",
)
_TENSORFLOW = Fix(
    "Install a build of TensorFlow that supports the device: it then places operations there by "
    "itself. This list is empty as long as it does not.",
    'print(tf.config.list_physical_devices("GPU"))',
    "changes-numerics",
)
_JAX = Fix(
    "Install the build of JAX for the device: it then computes there by itself. This list names "
    "only the CPU as long as it does not.",
    "print(jax.devices())",
    "changes-numerics",
)
_FIXES = {"pytorch": _TORCH, "tensorflow": _TENSORFLOW, "jax": _JAX}
