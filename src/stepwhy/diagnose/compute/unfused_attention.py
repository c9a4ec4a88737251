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
operations. On a CPU, the time of whole attentions counts, of which half is usually saved; one with
dropout does not, as PyTorch computes it by separate operations anyway.

## Fix
Call the library's fused attention.

## Fix risk
The last digits differ. Fused kernels support fewer masks, types and head sizes; for others, PyTorch
falls back to separate operations.

## When it abstains
Without host operations, outside of PyTorch, and when most kernels cannot be attributed to an
operation, as with CUDA graphs.
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
    operations_in_order,
)
from stepwhy.diagnose.shared.measure import by_string, mean_within, on_scale, time_of, times
from stepwhy.diagnose.shared.program import is_pytorch
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Rule, saving
from stepwhy.diagnose.shared.work_lines import times_at_lines
from stepwhy.trace import NULL, Phase

RULE = Rule(
    __name__,
    name="Unfused attention",
    found="Use fused attention",
    clear="Attention does not run as separate operations",
    needs=(("host-ops",), ("device-time",), ("kernels",), ("steps",)),
    least_share=0.05,  # of the step; below it the gain is less than the variation between steps
    least_saved=0.5,  # of the cost; a fused kernel still applies the mask and the softmax
    change="fuse attention",
)

SHARE_OF_CPU = 0.10  # of the step, that is saved
# Of an attention with its gradients, for 16 to 1,024 positions and heads of 16 to 64: the shorter
# and the narrower, the more.
USUALLY_SAVED_ON_CPU, SAVED_ON_CPU = 0.5, (0.2, 0.7)
_PRODUCT, _SOFTMAX = 0, 1
# Source: `use_flash_attention_cpp` in aten/src/ATen/native/transformers/sdp_utils_cpp.cpp.
_DROPOUT = regex(r"aten::(bernoulli_?|native_dropout)")
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
    if not facts.has_accelerator:
        return _on_cpu(facts)
    calls, device = calls_in_order(facts).on_busiest_device(facts)
    between, count = _between(facts, calls)
    cost = on_scale(facts, mean_within(facts, time_of(facts, calls.rows[between])), "compute")
    evidence = on_device(_evidence(facts, calls, between, count, cost), device)
    edit = Edit("kernels", "fused", host_ns=calls.host_ns(facts, between))
    return RULE.judge(facts, cost, evidence, RULE.fix(), shown=2, edit=edit)


def _on_cpu(facts: Facts) -> Finding:
    """Judge whole attentions on a CPU, whose fused one has no dropout."""
    calls = operations_in_order(facts)
    whole, count = _between(facts, calls, with_products=True)
    rows = calls.rows[whole]
    time_ns = on_scale(facts, mean_within(facts, time_of(facts, rows)), "compute")
    cost = round(USUALLY_SAVED_ON_CPU * time_ns)
    share = Evidence("share of the step in attentions", time_ns / max(facts.wall_ns, 1), "fraction")
    per_step = Evidence("attentions per step", count / max(facts.steady_count, 1), "count")
    drops = facts.trace.matches(facts.trace.slices.name[rows], _DROPOUT.fullmatch)
    if cost < SHARE_OF_CPU * facts.wall_ns or drops.any():
        return RULE.nothing((per_step, share))
    least, most = (round(part * time_ns) for part in SAVED_ON_CPU)
    evidence = (per_step, share, *times_at_lines(facts, rows))
    edit = Edit("ops", "gone", cost_ns=cost)
    return RULE.finding(cost, evidence, RULE.fix(), saving("fuse attention", least, most), edit)


def _between(facts: Facts, calls: Calls, *, with_products: bool = False) -> tuple[Mask, int]:
    """Mask of the calls between the two products of an attention, and the number of attentions.

    Args:
        facts: Facts of the run.
        calls: The calls.
        with_products: Whether to add the products.
    """
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
    margin = int(not with_products)
    np.add.at(edges, first + margin, 1)
    np.add.at(edges, last + 1 - margin, -1)
    inside = (np.cumsum(edges)[:-1] > 0) & (with_products | (numbers != _PRODUCT))
    return inside | _gradients(facts, calls, first, last, margin), len(first)


def _gradients(
    facts: Facts, calls: Calls, first: NDArray[np.intp], last: NDArray[np.intp], margin: int
) -> Mask:
    """Mask of the calls that compute gradients of what lies between two products; (calls,).

    Args:
        facts: Facts of the run.
        calls: The calls.
        first: The first product of each attention; (attentions,).
        last: The last one; (attentions,).
        margin: 0 to add the products, else 1.
    """
    sequence = facts.trace.slices.sequence
    numbered = nesting.nearest(facts.nesting, sequence != NULL)[calls.ops]
    number = np.where(numbered == NULL, NULL, sequence[numbered]).astype(np.int64)
    known = (number[first] != NULL) & (number[last] > number[first])
    begins, ends = number[first[known]] + margin, number[last[known]] + 1 - margin
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
