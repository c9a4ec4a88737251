"""One kind of operation takes most of the device's compute time.

## What it means
Most of the step's computation is of one kind: convolutions, matrix products, softmax...

## Why it costs
This is not a problem by itself. But a compute-bound step is limited by its largest operation, so
that is where to optimise.

## How it is measured
Sum the durations of the kernels in the steady steps, grouped by the framework operation that
launched them or, if unknown, by the kernel's name; on a CPU, by operation. The finding has no cost,
because all of the work may be needed. Findings with a cost are listed before it.

## Fix
Lower precision for matrix products and convolutions, a layout that the hardware prefers, fused
kernels for chains of element-wise work, a better algorithm for the rest.

## Fix risk
Lower precision changes numerics; layouts and fusion may, in the last digits.

## When it abstains
When no computation was recorded. With fewer than `FEWEST_SLICES` kernels or operations, one always
dominates, so the verdict is `incomplete`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from stepwhy.diagnoses.shared.measure import by_string, merged, nearest
from stepwhy.diagnoses.shared.rule import Rule
from stepwhy.diagnoses.shared.slices import steady_work
from stepwhy.findings import Evidence, Fix
from stepwhy.patterns import regex
from stepwhy.trace import NULL, Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.diagnoses.shared.measure import Group
    from stepwhy.findings import Finding
    from stepwhy.passes.facts import Facts

RULE = Rule(
    id="dominant-op",
    family="compute",
    name="Where the computation goes",
    found="Speed up the largest operation",
    clear="No single kind of operation dominates the step",
    needs=(("device-time",), ("kernels",), ("steps",)),
)

DOMINANT = 0.30  # of the summed compute time; a third in one operation is worth optimising
COMPUTE_BOUND = 0.50  # of the step in computation; below it something else limits the step
FEWEST_SLICES = 10  # kernels or operations; among fewer, one always dominates

# First match wins, in names in lower case: a case-insensitive search takes three times as long.
# Source: operator names of PyTorch and TensorFlow, kernel names of cuDNN, cuBLAS, MIOpen, Tensile
# ('Cijk_*') and Triton.
_FAMILIES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (family, regex(pattern))
    for family, pattern in (
        ("attention", r"attention|attn|flash|fmha"),
        ("convolution", r"conv|wgrad|dgrad|winograd|implicit_gemm|im2col"),
        ("normalisation", r"norm(?!al(_|$))|(^|_)bn_"),  # not RandomStandardNormal
        ("matrix product", r"mm\b|gemm|matmul|cijk_|linear|einsum|cublas|_ogs_|moe"),
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


# Attention that never writes the score matrix. Source: operator and kernel names of PyTorch,
# flash-attn, xFormers and cuDNN.
_FUSED = regex(r"flash|fmha|efficient_attention|memory_efficient|cudnn_attention", re.IGNORECASE)


def diagnose(facts: Facts) -> Finding:
    """Judge how much of the computation is of one kind."""
    rows = steady_work(facts, Kind.KERNEL, Kind.MEMSET, Kind.OP)
    if not len(rows):
        return RULE.no_data("No computation is recorded in the steps (signal 'device-activity').")
    if len(rows) < FEWEST_SLICES:
        return RULE.incomplete("Too few operations are recorded to say which one dominates.")
    names = facts.trace.slices.name[_named_by(facts, rows)]
    ops = by_string(facts, names, _own_ns(facts, rows))
    families = merged((family_of(op.name), op) for op in ops)
    total_ns = sum(family.total_ns for family in families)
    evidence = _evidence(facts, families, ops, total_ns)
    is_dominant = families[0].total_ns >= DOMINANT * total_ns
    if not is_dominant or facts.share("compute") < COMPUTE_BOUND:
        return RULE.nothing(evidence[:2])
    family = families[0].name
    largest = next(op.name for op in ops if family_of(op.name) == family)
    if family == "attention" and _FUSED.search(largest):
        return RULE.finding(None, evidence, _FUSED_ATTENTION)
    return RULE.finding(None, evidence, _fix(facts, family))


def family_of(name: str) -> str:
    """Family of an operation or kernel, such as 'convolution'; its own name if none matches."""
    lower = name.lower()
    return next((family for family, pattern in _FAMILIES if pattern.search(lower)), name)


def _own_ns(facts: Facts, rows: NDArray[np.int32]) -> NDArray[np.int64]:
    """Duration of each slice; on a CPU, where operations call each other, the self time."""
    if not facts.has_accelerator:
        return facts.nesting.self_ns(rows)
    durations: NDArray[np.int64] = facts.trace.slices.dur_ns[rows]
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
    found.extend(
        Evidence("device time of the operation", facts.mean_ns(g.total_ns), "ns", g.name)
        for g in ops[:5]
    )
    return tuple(found)


def _fix(facts: Facts, family: str) -> Fix:
    if facts.trace.meta.framework == "tensorflow":
        return _TF_FIXES.get(family, _ANY)
    return (_FIXES if facts.has_accelerator else _CPU_FIXES).get(family, _ANY)


_PRECISION = Fix(
    "Compute in lower precision where the model allows it; dimensions that are multiples of eight "
    "reach the matrix units.",
    'torch.set_float32_matmul_precision("high")           # TF32\n'
    'with torch.autocast("cuda", dtype=torch.bfloat16):\n'
    "    loss = model(batch)",
    "changes-numerics",
)
_CONVOLUTION = Fix(
    "Compute in lower precision and in the channels-last layout, and let the library choose its "
    "algorithms by measurement.",
    "model = model.to(memory_format=torch.channels_last)\n"
    "torch.backends.cudnn.benchmark = True\n"
    'with torch.autocast("cuda", dtype=torch.bfloat16):\n'
    "    loss = model(batch)",
    "changes-numerics",
)
_FUSE = Fix(
    (
        "Let a compiler fuse chains of element-wise operations: they are limited by memory "
        "bandwidth, not by arithmetic."
    ),
    "model = torch.compile(model)",
    "changes-numerics",
)
_ATTENTION = Fix(
    "Use fused attention, which does not write the score matrix to memory.",
    "torch.nn.functional.scaled_dot_product_attention(query, key, value)",
    "changes-numerics",
)
_FUSED_ATTENTION = Fix(
    "The attention is already fused. You can still reduce its work (shorter sequences, "
    "sliding windows, fewer key and value heads), or use a newer kernel for this device.",
    "",
    "changes-numerics",
)
_ANY = Fix(
    "Look at this operation first: its shapes, its precision, and whether all of it is needed.",
    "",
    "unknown",
)
_FIXES = {
    "convolution": _CONVOLUTION,
    "matrix product": _PRECISION,
    "attention": _ATTENTION,
    "softmax": _ATTENTION,
    "element-wise work": _FUSE,
    "normalisation": _FUSE,
}
_CPU_PRECISION = Fix(
    "Compute in bfloat16 where the CPU has instructions for it (avx512_bf16 or amx in "
    "/proc/cpuinfo; else it is slower), and use as many threads as there are cores.",
    'with torch.autocast("cpu", dtype=torch.bfloat16):\n    loss = model(batch)',
    "changes-numerics",
)
_CPU_CONVOLUTION = Fix(
    f"{_CPU_PRECISION.text} Convolutions prefer the channels-last layout.",
    "model = model.to(memory_format=torch.channels_last)\n"
    "images = images.to(memory_format=torch.channels_last)\n" + _CPU_PRECISION.code,
    "changes-numerics",
)
_CPU_FIXES = {**_FIXES, "convolution": _CPU_CONVOLUTION, "matrix product": _CPU_PRECISION}
_TF_PRECISION = Fix(
    "Compute in lower precision where the hardware has units for it, and choose the layout that it "
    "prefers: NCHW on most accelerators, NHWC on a CPU.",
    "mixed = tf.train.experimental.enable_mixed_precision_graph_rewrite\n"
    "optimizer = mixed(optimizer)\n"
    '# TF2: tf.keras.mixed_precision.set_global_policy("mixed_float16")',
    "changes-numerics",
)
_TF_FUSE = Fix(
    "Let XLA fuse chains of element-wise operations: they are limited by memory bandwidth, "
    "not by arithmetic. Use fused batch normalisation.",
    "tf.layers.batch_normalization(inputs, fused=True)\n"
    "options = config.graph_options.optimizer_options\n"
    "options.global_jit_level = tf.OptimizerOptions.ON_1",
    "changes-numerics",
)
_TF_FIXES = {
    "convolution": _TF_PRECISION,
    "matrix product": _TF_PRECISION,
    "element-wise work": _TF_FUSE,
    "normalisation": _TF_FUSE,
}
