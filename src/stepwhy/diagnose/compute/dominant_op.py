"""One operation takes most of the device's compute time, although a faster one does the same.

## What it means
Most of the step's computation is one operation with a faster replacement: in JAX the gradient of
indexing, which adds rows to a table; in PyTorch the gradients of slices, if a loop takes a tensor
apart by `x[:, t]`.

## Why it costs
Rows of the same index are added one after another, so the device uses little of its bandwidth, and
less the more often indices repeat. The gradient of each slice is as large as the whole tensor, so
a loop over T steps writes T times as much as is needed.

## How it is measured
Sum the durations of the kernels in the steady steps, grouped by the framework operation that
launched them or, if unknown, by the kernel's name; on a CPU, by operation. Gradients of slices
count as one, with the zeros that they begin with and the sum that each is added to. In JAX, a
scatter counts on accelerators only: on a CPU, the product with one-hot rows takes longer. A scatter
has no cost, because the replacement takes time as well; of the gradients of slices, it is all of
their time. Any other operation that dominates is no problem by itself: a compute-bound step has to
compute. The evidence then shows where the computation goes, and other diagnoses name precise
causes.

## Fix
Multiply by one-hot rows instead of indexing, so that the gradient is a matrix product. Split a
tensor once with `unbind` instead of indexing it in a loop.

## Fix risk
One-hot rows need memory, and results differ in the last digits.

## When it abstains
When no computation was recorded. With fewer than `FEWEST_SLICES` kernels or operations, one always
dominates, so the verdict is `incomplete`.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from stepwhy.base.columns.sums import total_of
from stepwhy.base.columns.types import AnyRows, Ints
from stepwhy.base.patterns import regex
from stepwhy.diagnose.shared.measure import Group, by_string, merged, nearest, times
from stepwhy.diagnose.shared.program import is_pytorch
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Rule, saving
from stepwhy.diagnose.shared.slices import is_inside, steady_work
from stepwhy.diagnose.shared.work_lines import times_at_lines
from stepwhy.read.kernel_names import Family, kernel_row
from stepwhy.trace import NULL, Kind, Phase

RULE = Rule(
    __name__,
    name="Where the computation goes",
    found="Replace the largest operation",
    clear="No operation with a faster replacement dominates the step",
    needs=(("device-time",), ("kernels",), ("steps",)),
)

DOMINANT = 0.30  # of the summed compute time; a third in one operation is worth replacing
COMPUTE_BOUND = 0.50  # of the step in computation; below it something else limits the step
FEWEST_SLICES = 10  # kernels or operations; among fewer, one always dominates

LEAST_SAVED = 0.5  # of the gradients of slices; an LSTM cell over 120 positions saved 0.7 to 0.9
FEWEST_TAKEN = 16  # slices per step; a few are heads of attention or parts of a gate

_OF_SLICES = "Split the tensor once: each slice in the loop has a gradient as large as all of it"

# Kernels of libraries; `stepwhy.read.kernel_names` knows their names.
_OF_LIBRARIES = {
    Family.ATTENTION: "attention",
    Family.CONVOLUTION: "convolution",
    Family.PRODUCT: "matrix product",
}
# First match wins, in names in lower case: a case-insensitive search takes three times as long.
# Source: operator names of PyTorch and TensorFlow, kernel names of PyTorch and of compilers.
_FAMILIES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (family, regex(pattern))
    for family, pattern in (
        ("attention", r"attention|attn"),
        ("convolution", r"conv|im2col"),
        ("normalisation", r"norm(?!al(_|$))|(^|_)bn_"),  # not RandomStandardNormal
        ("matrix product", r"mm\b|matmul|linear|einsum|_ogs_|moe"),
        ("softmax", r"softmax|cross_entropy|nll_loss"),
        ("embedding", r"embedding|gather|scatter|index"),
        ("optimizer", r"adam|sgd|lamb|multi_tensor|foreach|apply[a-z]"),
        ("pooling", r"pool"),
        ("sort", r"sort|topk|radix"),
        ("reduction", r"reduce|\bsum\b|mean|argmax"),
        (
            "element-wise work",
            (
                r"elementwise|pointwise|unrolled|triton_poi|relu|gelu|silu|dropout|cast|tanh"
                r"|sigmoid|::(add|sub|mul|div|copy|fill|zero|pow|rsqrt|neg)_?(cuda)?\b"
            ),
        ),
    )
)


# Gradients of `x[:, t]` and `x[:, a:b]`: zeros of the size of x, and the gradient copied into them.
# Autograd then adds them up. Source: PyTorch, aten/src/ATen/native/TensorShape.cpp,
# `select_backward`, `slice_backward`; torch/csrc/autograd/engine.cpp, `evaluate_function`.
_SLICE_BACKWARD = regex(r"aten::(?:select|slice)_backward")
_SLICE_NODE = regex(r"autograd::engine::evaluate_function: (?:Select|Slice)Backward\d*")
# Gradient of indexing. Source: names of XLA's fusions ('input_scatter_fusion').
_SCATTER = regex(r"(?<!reduce[-_])scatter")


def diagnose(facts: Facts) -> Finding:
    """Judge how much of the computation is of one kind."""
    rows = steady_work(facts, Kind.KERNEL, Kind.MEMSET, Kind.OP)
    if not len(rows):
        return RULE.no_data(
            "device-activity", "No computation is recorded in the steps (signal 'device-activity')."
        )
    if len(rows) < FEWEST_SLICES:
        return RULE.incomplete(
            "enough-operations", "Too few operations are recorded to say which one dominates."
        )
    named, own_ns = _named_by(facts, rows), _own_ns(facts, rows)
    names = facts.trace.slices.name[named]
    ops = by_string(facts, names, own_ns)
    families = merged((family_of(op.name), op) for op in ops)
    total_ns = sum(family.total_ns for family in families)
    evidence = _evidence(facts, families, ops, total_ns)
    if facts.share("compute") < COMPUTE_BOUND:
        return RULE.nothing(evidence)
    if ops[0].total_ns >= DOMINANT * total_ns and _adds_rows(facts, ops[0].name):
        of_first = names == facts.trace.strings_where([ops[0].name])[0]
        where = times_at_lines(facts, rows[of_first])
        return RULE.finding(None, (*evidence, *where), RULE.fix("one-hot"))
    of_slices = is_inside(facts, _gradients_of_slices(facts), named)
    share = total_of(own_ns[of_slices]) / max(total_ns, 1)
    if share < DOMINANT:
        return RULE.nothing(evidence)
    slices = Evidence("share of the computation", share, "fraction", "gradients of slices")
    evidence = (*evidence[:1], slices, *evidence[1:], *times_at_lines(facts, rows[of_slices]))
    cost = round(share * facts.breakdown["compute"])
    gain = saving("split the tensor once", LEAST_SAVED * cost, cost)
    edit = Edit("ops", "gone")
    return RULE.finding(cost, evidence, RULE.fix("unbind"), gain, edit, title=_OF_SLICES)


def _adds_rows(facts: Facts, name: str) -> bool:
    """Whether an operation is the gradient of indexing in a program of JAX."""
    if facts.trace.meta.framework != "jax" or not facts.has_accelerator:
        return False
    if not _SCATTER.search(name):
        return False
    named = facts.trace.slices.name == facts.trace.strings_where([name])[0]
    return bool((facts.phases[named] == Phase.BACKWARD).all())


def _gradients_of_slices(facts: Facts) -> AnyRows:
    """Nodes for the slices of a tensor that a loop takes apart; none if a step takes few slices."""
    rows = facts.slices(Kind.OP, steady=True)
    names = facts.trace.slices.name[rows]
    taken = rows[facts.trace.matches(names, _SLICE_BACKWARD.fullmatch)]
    if not is_pytorch(facts) or len(taken) < FEWEST_TAKEN * max(facts.steady_count, 1):
        return rows[:0]
    return np.union1d(taken, rows[facts.trace.matches(names, _SLICE_NODE.fullmatch)])


def family_of(name: str) -> str:
    """Family of an operation or kernel, such as 'convolution'; its own name if none matches."""
    lower = name.lower()
    found = (family for family, pattern in _FAMILIES if pattern.search(lower))
    return _of_library(name) or next(found, name)


def _of_library(name: str) -> str:
    """Family of a kernel of a library, '' for other names."""
    row = kernel_row(name)
    return "" if row is None else _OF_LIBRARIES.get(row.family, "")


def _own_ns(facts: Facts, rows: NDArray[np.int32]) -> Ints:
    """Duration of each slice; on a CPU, where operations call each other, the self time."""
    if not facts.has_accelerator:
        return facts.nesting.self_ns(rows)
    durations: Ints = facts.trace.slices.dur_ns[rows]
    return durations


def _named_by(facts: Facts, rows: NDArray[np.int32]) -> NDArray[np.int32]:
    """For each slice, the framework operation that launched it, or itself if unknown; (rows,)."""
    ops = nearest(facts, Kind.OP)
    call = facts.launches.calls_of(rows)
    op = np.where(call == NULL, np.int32(NULL), ops[call])
    named: NDArray[np.int32] = np.where(op == NULL, rows, op)
    return named


def _evidence(
    facts: Facts, families: list[Group], ops: list[Group], total_ns: int
) -> tuple[Evidence, ...]:
    found = [Evidence("share of the step spent computing", facts.share("compute"), "fraction")]
    found.extend(
        Evidence("share of the computation", g.total_ns / max(total_ns, 1), "fraction", g.name)
        for g in families[:3]
    )
    devices = len(facts.leading)
    of = f", sum of {devices} devices" if facts.has_accelerator and devices > 1 else ""
    found.extend(times(facts, f"device time of the operation{of}", ops[:5]))
    return tuple(found)
