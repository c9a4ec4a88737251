"""Attention consists of two batched matrix products with a softmax in between.

## What it means
The program computes all attention scores by one batched matrix product, normalises them by a
softmax, and multiplies them by the values in a second product.

## Why it costs
Every operation in between (scaling, masks, type conversions, softmax, dropout) reads and writes all
scores, whose number grows with the square of the sequence length. A fused kernel keeps them on the
chip.

## How it is measured
The diagnosis looks for a batched product, a softmax and a batched product in an eager program,
without another matrix product or convolution in between. The cost is the time of the operations
between the two products, and of their gradients, which have the numbers that autograd gave these
operations.

## Fix
Call the library's fused attention.

## Fix risk
The last digits differ. Fused kernels support fewer masks, types and head sizes; for others, PyTorch
falls back to separate operations.

## When it abstains
Without an accelerator or host operations, outside of PyTorch, and when most kernels cannot be
attributed to an operation, as with CUDA graphs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stepwhy.base.columns import nesting
from stepwhy.base.columns.intervals import windows_at
from stepwhy.base.columns.types import Mask
from stepwhy.base.patterns import regex
from stepwhy.diagnose.compute.shared.calls import (
    NOT_ATTRIBUTED,
    Calls,
    attributes_calls,
    calls_in_order,
    on_device,
)
from stepwhy.diagnose.shared.measure import by_string, mean_within, on_scale, time_of, times
from stepwhy.diagnose.shared.program import is_pytorch
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Rule
from stepwhy.diagnose.shared.work_lines import times_at_lines
from stepwhy.trace import NULL, Phase

RULE = Rule(
    __name__,
    name="Unfused attention",
    found="Use fused attention",
    clear="Attention does not run as separate operations",
    needs=(("host-ops",), ("device-time",), ("kernels",), ("steps",)),
    accelerator_only=True,
    least_share=0.05,  # of the step; below it the gain is less than the variation between steps
    least_saved=0.5,  # of the cost; a fused kernel still applies the mask and the softmax
    change="fuse attention",
)

_PRODUCT, _SOFTMAX = 0, 1
# Source: operators of PyTorch. The last pattern is of what lies in no attention.
_OPS = (
    regex(r"aten::(bmm|baddbmm)_?"),
    regex(r"aten::_(masked_|safe_)?softmax"),
    regex(r"aten::\w*(mm|conv|linear|attention)\w*"),
)


def diagnose(facts: Facts) -> Finding:
    """Judge the time of the operations between the two products of attentions."""
    if not is_pytorch(facts):
        return RULE.not_applicable("Attention is recognised only among PyTorch's operations.")
    if not attributes_calls(facts):
        return RULE.incomplete("kernel-launches", NOT_ATTRIBUTED)
    calls, device = calls_in_order(facts).on_busiest_device(facts)
    between, count = _between(facts, calls)
    cost = on_scale(facts, mean_within(facts, time_of(facts, calls.rows[between])), "compute")
    evidence = on_device(_evidence(facts, calls, between, count, cost), device)
    edit = Edit("kernels", "fused", host_ns=calls.host_ns(facts, between))
    return RULE.judge(facts, cost, evidence, RULE.fix(), shown=2, edit=edit)


def _between(facts: Facts, calls: Calls) -> tuple[Mask, int]:
    """Mask of the calls between the two products of an attention, and the number of attentions."""
    numbers, edges = calls.matching(facts, _OPS), np.zeros(len(calls.rows) + 1, dtype=np.int8)
    key = np.flatnonzero(numbers >= 0)
    # An operation may launch several kernels.
    key = key[np.append(True, calls.ops[key][1:] != calls.ops[key][:-1])[: len(key)]]
    first, middle, last = key[:-2], key[1:-1], key[2:]
    is_attention = (
        (numbers[first] == _PRODUCT)
        & (numbers[middle] == _SOFTMAX)
        & (numbers[last] == _PRODUCT)
        & (calls.tracks[first] == calls.tracks[last])
    )
    first, last = first[is_attention], last[is_attention]
    edges[first + 1] += 1
    edges[last] -= 1
    inside = (np.cumsum(edges)[:-1] > 0) & (numbers != _PRODUCT)
    return inside | _gradients(facts, calls, first, last), len(first)


def _gradients(facts: Facts, calls: Calls, first: NDArray[np.intp], last: NDArray[np.intp]) -> Mask:
    """Mask of the calls that compute gradients of what lies between two products; (calls,).

    Args:
        facts: Facts of the run.
        calls: The calls.
        first: The first product of each attention; (attentions,).
        last: The last one; (attentions,).
    """
    sequence = facts.trace.slices.sequence
    numbered = nesting.nearest(facts.nesting, sequence != NULL)[calls.ops]
    number = np.where(numbered == NULL, NULL, sequence[numbered]).astype(np.int64)
    known = (number[first] != NULL) & (number[last] > number[first])
    begins, ends = number[first[known]] + 1, number[last[known]]
    order = np.argsort(begins)
    within = windows_at(number, begins[order], ends[order]) != NULL
    gradients: Mask = within & (facts.phases[calls.rows] == Phase.BACKWARD)
    return gradients


def _evidence(
    facts: Facts, calls: Calls, between: Mask, count: int, cost: int
) -> tuple[Evidence, ...]:
    slices, rows = facts.trace.slices, calls.rows[between]
    share = cost / max(facts.wall_ns, 1)
    found = [
        Evidence("attentions per step", count / max(facts.steady_count, 1), "count"),
        Evidence("share of the step between their two products", share, "fraction"),
    ]
    ops = by_string(facts, slices.name[calls.ops[between]], slices.dur_ns[rows])
    found.extend(times(facts, "time of the operation", ops[:4]))
    return (*found, *times_at_lines(facts, rows))
