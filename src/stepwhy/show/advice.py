"""Advice for a result without a verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepwhy.result import Result

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
# The same for Nsight Systems, whatever the framework.
_NSIGHT = {"nsys", "nsys-recipe"}
_MARK_RANGES = "Mark the steps: open a range of NVTX, such as 'step 7', around each iteration."
_TRACE_CUDA = "Record the device as well: 'nsys profile --trace=cuda,nvtx,osrt ...'."
# Formats of TensorFlow 1, whose files hold one run each.
_OF_SESSIONS = {"tf-timeline", "tf-run-metadata"}
_LOOP = "Call session.run 20 times or more in a loop: the first runs prepare the graph."
# Enough for a mean and its spread, not counting warm-up.
_ENOUGH_STEPS = 5
# For a run that stepwhy observed.
_RUN_LONGER = "Train for at least 20 steps: the first ones are warm-up, then a few are traced."
_NO_FRAMEWORK = "Record the loop with a Python profiler: it uses no framework that can trace it."
_WAIT = (
    "Wait for the device in every step while stepwhy observes the run: read the loss, or call "
    "jax.block_until_ready(loss)."
)
_WAIT_LAST = (
    "Wait for the last step before the program ends, with jax.block_until_ready(loss), or train "
    "for longer."
)
_LOOK_BETWEEN = (
    "Check what the loop does between two framework calls: reading, writing, sleeping and "
    "waiting are not traced."
)
# Counters of files that end early: what is missing may stand behind the cut.
_CUT = frozenset({"json-truncated", "gzip-truncated", "protobuf-truncated", "database-truncated"})
_WATCH = "Watch the run with 'stepwhy run train.py': summaries do not show what a step does."
_WATCH_CALLS = "Watch the run with 'stepwhy run train.py' to see what takes the time of its steps."
# Formats that list collectives, and nothing else.
_OF_COLLECTIVES = {"flight-recorder", "nccl-log", "nccl-inspector"}


def next_steps(result: Result) -> list[str]:
    """Ways to get a verdict, most direct first; one sentence each."""
    framework = result.run.framework.lower()
    advice = [
        entry.help for file in result.inputs for entry in file.health if entry.severity == "error"
    ]
    if any(file.format == "tensorboard" for file in result.inputs):
        return list(dict.fromkeys([*filter(None, advice), _WATCH]))
    if all(file.format in _OF_COLLECTIVES for file in result.inputs):
        return list(dict.fromkeys([*filter(None, advice), _WATCH_CALLS]))
    missing = result.verdict.abstention.missing if result.verdict.abstention else ()
    if result.steps.source == "hook":
        if "kernels" in missing:
            return list(dict.fromkeys(filter(None, advice)))
        if "last-wait" in missing:
            advice.append(_WAIT_LAST)
        elif result.devices:
            advice.append(_LOOK_BETWEEN)
        else:
            is_lost = bool(result.run.untraced_advice)  # steps were traced, but not kept
            is_ahead = result.steps.traced and not is_lost
            advice.append(_WAIT if is_ahead else _untraced(result, framework))
        return list(dict.fromkeys(filter(None, advice)))
    is_cut = any(entry.counter in _CUT for file in result.inputs for entry in file.health)
    is_nsight = any(file.format in _NSIGHT for file in result.inputs)
    if not result.devices and not is_cut and "kernels" not in missing:
        by_framework = _RECORD_DEVICES.get(framework, "Record device activity as well.")
        advice.append(_TRACE_CUDA if is_nsight else by_framework)
    if any(file.format in _OF_SESSIONS for file in result.inputs):
        advice.append(_LOOP)
    elif result.steps.source == "whole-trace":
        by_framework = _MARK_STEPS.get(framework, "Mark the steps while you record.")
        advice.append(_MARK_RANGES if is_nsight else by_framework)
    elif result.steps.steady < _ENOUGH_STEPS:
        advice.append(f"Record at least {_ENOUGH_STEPS} steps after warm-up.")
    advice.append(
        "Or record it with 'stepwhy run train.py', which marks the steps and times them unprofiled."
    )
    return list(dict.fromkeys(filter(None, advice)))


def _untraced(result: Result, framework: str) -> str:
    """Sentence on what to change so that stepwhy can trace steps."""
    if not framework:
        return _NO_FRAMEWORK
    advice = result.run.untraced_advice
    return f"{advice}." if advice else _RUN_LONGER
