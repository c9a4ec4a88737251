"""What to do when a verdict cannot be told."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepwhy.findings import Result

_MARK_STEPS = {
    "pytorch": "Mark the steps: call prof.step() once per iteration while torch.profiler records.",
    "tensorflow": "Mark the steps: wrap each iteration in "
    "tf.profiler.experimental.Trace('train', step_num=i).",
    "jax": "Mark the steps: wrap each iteration in "
    "jax.profiler.StepTraceAnnotation('train', step_num=i).",
}
_RECORD_DEVICES = {
    "pytorch": "Record the device as well: "
    "profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]).",
}
# A window that a mean and its spread can be taken over, once warm-up has been left out.
_ENOUGH_STEPS = 5
# Of a run that stepwhy watched: to run longer, and where to look for what was not traced.
_RUN_LONGER = "Train for at least 20 steps: the first ones are warm-up, then a few are traced."
_NOT_TRACED = "Record the loop with a Python profiler: nothing in it can be traced by a framework."
_LOOK_BETWEEN = (
    "Check what the loop does between two framework calls: reading, writing, sleeping and "
    "waiting are not traced."
)
_WATCH = "Watch the run with 'stepwhy run train.py': summaries do not say what a step does."


def next_steps(result: Result) -> list[str]:
    """What would let stepwhy tell, the most direct first; one sentence each."""
    framework = result.run.framework.lower()
    advice = [
        entry.help for file in result.inputs for entry in file.health if entry.severity == "error"
    ]
    if any(file.format == "tensorboard" for file in result.inputs):
        return list(dict.fromkeys([*filter(None, advice), _WATCH]))
    if result.steps.source == "hook":
        longer = _longer(result) if framework else _NOT_TRACED
        advice.append(_LOOK_BETWEEN if result.devices else longer)
        return list(dict.fromkeys(filter(None, advice)))
    if not result.devices:
        advice.append(_RECORD_DEVICES.get(framework, "Record what the devices do as well."))
    if result.steps.source == "whole-trace":
        advice.append(_MARK_STEPS.get(framework, "Mark the steps while you record."))
    elif result.steps.steady < _ENOUGH_STEPS:
        advice.append(f"Record at least {_ENOUGH_STEPS} steps after warm-up.")
    advice.append(
        "Or record it with 'stepwhy run train.py', which marks the steps and times them unprofiled."
    )
    return list(dict.fromkeys(filter(None, advice)))


def _longer(result: Result) -> str:
    """What would have let a step be traced: to run longer, where nothing else kept it from."""
    advice = result.run.untraced_advice
    return f"{advice}." if advice else _RUN_LONGER
