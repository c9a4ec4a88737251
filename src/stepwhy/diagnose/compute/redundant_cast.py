"""Inference converts the weights of the model in every step.

## What it means
`torch.autocast` converts weights and activations to a shorter type before each operation that
computes in it, and back before each operation that needs FP32.

## Why it costs
Each conversion is a kernel that reads and writes a whole tensor. In inference, the weights do not
change, so converting them gives the same result in every step.

## How it is measured
Conversions (`aten::to`) that another operation calls count, because this is how autocast inserts
them. The cost is the time of their kernels in the steady steps, for weights and activations,
because a converted model needs neither. In training, the time is shown but not reported as a
problem: the weights change in each step.

## Fix
Convert the model and its input once, and remove autocast.

## Fix risk
Normalisations and softmax then compute in the shorter type as well. Compare the outputs.

## When it abstains
Without an accelerator or host operations, outside of PyTorch, and when most kernels cannot be
attributed to an operation, as with CUDA graphs.
"""

from __future__ import annotations

from stepwhy.base.columns.types import AnyRows
from stepwhy.base.patterns import regex
from stepwhy.diagnose.compute.shared.calls import (
    NOT_ATTRIBUTED,
    attributes_calls,
    calls_in_order,
    converting,
)
from stepwhy.diagnose.shared.measure import by_string, mean_within, on_scale, time_of, times
from stepwhy.diagnose.shared.program import is_pytorch, is_training
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Rule
from stepwhy.diagnose.shared.slices import strings_of
from stepwhy.diagnose.shared.work_lines import times_at_lines
from stepwhy.trace import NULL, Kind

RULE = Rule(
    __name__,
    name="Repeated type conversions",
    found="Convert the model once, not in every step",
    clear="Type conversions take little time, or are needed in every step",
    needs=(("host-ops",), ("device-time",), ("kernels",), ("steps",)),
    accelerator_only=True,
    least_share=0.05,  # of the step; below it the gain is less than the variation between steps
    least_saved=0.5,  # of the cost; some outputs have to be converted back
    change="convert types once",
    edit=Edit("ops", "gone", "aten::_to_copy"),
)

_BFLOAT16 = regex(r"bf16|bfloat")


def diagnose(facts: Facts) -> Finding:
    """Judge the time of the conversions that autocast inserts."""
    if not is_pytorch(facts):
        return RULE.not_applicable("Conversions are recognised only among PyTorch's operations.")
    if not attributes_calls(facts):
        return RULE.incomplete("kernel-launches", NOT_ATTRIBUTED)
    rows, causes = _casts(facts)
    cost = on_scale(facts, mean_within(facts, time_of(facts, rows)), "compute")
    evidence = _evidence(facts, rows, causes, cost)
    is_needed = bool(is_training(facts))
    # The type in which the matrix kernels compute.
    names = strings_of(facts, facts.trace.slices.name, Kind.KERNEL)
    is_bfloat16 = any(_BFLOAT16.search(facts.trace.string(name)) for name in names)
    fix = RULE.fix("to-bfloat16" if is_bfloat16 else "to-float16")
    return RULE.judge(facts, cost, evidence, fix, shown=2, unless=is_needed)


def _casts(facts: Facts) -> tuple[AnyRows, AnyRows]:
    """Kernels of conversions inside of operations, and these operations; (slices,) twice."""
    calls = calls_in_order(facts)
    causes = converting(facts, calls)
    inside = causes != NULL
    return calls.rows[inside], causes[inside]


def _evidence(facts: Facts, rows: AnyRows, causes: AnyRows, cost: int) -> tuple[Evidence, ...]:
    slices = facts.trace.slices
    found = [
        Evidence("conversions inside operations per step",
                 len(rows) / max(facts.steady_count, 1), "count"),
        Evidence("share of the step in conversions", cost / max(facts.wall_ns, 1), "fraction"),
    ]  # fmt: skip
    causing = by_string(facts, slices.name[causes], slices.dur_ns[rows])[:4]
    places = times_at_lines(facts, rows)
    return (*found, *times(facts, "time of conversions for the operation", causing), *places)
