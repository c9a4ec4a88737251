"""Matrix products or convolutions compute in FP32 on a device with faster units for other types.

## What it means
The device has units for matrix products of shorter types (TF32, bfloat16, float16), but its kernels
multiply FP32 values without them.

## Why it costs
Matrix units multiply two to sixteen times as fast, depending on the device and the type. Values of
two bytes also halve the memory traffic.

## How it is measured
The diagnosis looks for kernels whose names show FP32 arithmetic (`sgemm`, `scudnn`, `simt`,
`f32f32_f32f32`, `<float`). The cost is the most that a faster type can save of their time in the
steady steps: half at twice the rate, 80 % at eight times. The model of the device decides:
TF32 from Ampere on; bfloat16 on AMD's Instinct, and where TF32 is as fast as FP32, as on a GeForce;
float16 on Volta and Turing.

## Fix
Allow TF32, or compute in mixed precision. With float16, scale the loss, because small gradients
underflow to zero.

## Fix risk
Values have fewer digits: compare the loss over some hundred steps. Some computations need FP32,
such as solvers and statistics.

## When it abstains
Without an accelerator, and when no kernel name shows a precision, as in a timeline of TensorFlow or
where a compiler names the kernels. If the model of the device is unknown, the finding has no cost,
and the advice is to look it up.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stepwhy.diagnose.shared.measure import by_name, mean_within, on_scale, time_of, times
from stepwhy.diagnose.shared.precision import (
    Faster,
    Precision,
    faster_type,
    model_names,
    precision_of,
)
from stepwhy.diagnose.shared.program import is_training
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Fix, Rule, saving
from stepwhy.diagnose.shared.slices import steady_work
from stepwhy.diagnose.shared.work_lines import times_at_lines
from stepwhy.trace import Kind

RULE = Rule(
    __name__,
    name="Matrix products in full precision",
    found="Compute matrix products in a faster precision",
    clear="Few matrix products are computed in full precision",
    needs=(("device-time",), ("kernels",), ("steps",)),
    accelerator_only=True,
)

SHARE = 0.20  # of the step; half of it can be saved, which is more than steps vary
DOUBLED = 0.5  # of the time is saved at twice the rate
LEAST_SAVED = 0.3  # of the time; small products do not fill the matrix units
COMPUTE_BOUND = 0.8  # of the step; if the host is nearly as busy, faster kernels may save nothing
MOST_SAVED = 0.8  # of the time; of eight times the rate, large products reach five


def diagnose(facts: Facts) -> Finding:
    """Judge the time of FP32 matrix kernels."""
    rows = steady_work(facts, Kind.KERNEL)
    full = _of_precision(facts, rows, "full")
    if not len(full) and not len(_of_precision(facts, rows, "lower")):
        return RULE.no_data(
            "kernel-names", "No kernel name shows the precision of a matrix product."
        )
    faster = faster_type(facts)
    if faster == "none":
        return RULE.not_applicable("The device multiplies no other type faster than FP32.")
    time = on_scale(facts, mean_within(facts, time_of(facts, full)), "compute")
    evidence = _evidence(facts, full, time)
    if not time or time < SHARE * facts.wall_ns:
        return RULE.nothing(evidence[:2])
    fix = _fix(facts, faster)
    if not faster:
        return RULE.finding(None, evidence, fix)
    edit = "compute matrix products in a faster precision"
    most = DOUBLED if faster == "bfloat16" else MOST_SAVED
    least = LEAST_SAVED if facts.share("compute") >= COMPUTE_BOUND else 0.0
    gain = saving(edit, least * time, most * time)
    change = Edit("kernels", "faster", factor=round(1 / (1 - most), 2), cost_ns=time)
    return RULE.finding(round(most * time), evidence, fix, gain, change)


def _of_precision(facts: Facts, rows: NDArray[np.int32], precision: Precision) -> NDArray[np.int32]:
    """Those of the kernels whose names show a precision; (slices,)."""
    names = facts.trace.slices.name[rows]
    return rows[facts.trace.matches(names, lambda name: precision_of(name) == precision)]


def _evidence(facts: Facts, rows: NDArray[np.int32], time: int) -> tuple[Evidence, ...]:
    models = ", ".join(sorted({model for model in model_names(facts) if model}))
    found = [
        Evidence("share of the step in FP32 matrix products", time / max(facts.wall_ns, 1),
                 "fraction"),
        Evidence("FP32 matrix kernels per step", len(rows) / max(facts.steady_count, 1), "count"),
        Evidence("model of the device", models or "not recorded", ""),
    ]  # fmt: skip
    found.extend(times(facts, "time of the kernel", by_name(facts, rows)[:3]))
    found.extend(times_at_lines(facts, rows))
    return tuple(found)


def _fix(facts: Facts, faster: Faster) -> Fix:
    framework = facts.trace.meta.framework
    if not faster:
        return RULE.fix("look-up" if framework == "pytorch" else "any")
    if framework == "pytorch":
        infers = is_training(facts) is False and faster != "tf32"
        return RULE.fix(f"{faster}-inference" if infers else faster)
    if framework == "tensorflow":
        return RULE.fix("mixed-float16" if faster == "float16" else "mixed-bfloat16")
    return RULE.fix("any")
