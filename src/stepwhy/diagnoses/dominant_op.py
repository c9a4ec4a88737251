"""One kind of operation holds most of the device's compute time.

## What it means
Where the step computes, it mostly computes one thing: convolutions, matrix products, softmax...

## Why it costs
It is no fault by itself. A step that is bound by computation is as fast as its largest operation
lets it be, so that this is the place where a change counts.

## How it is measured
Durations of the kernels in the steady steps, grouped by what they do: by the framework operation
that launched them, where it is known, else by the kernel's name; on a CPU by the operation. It
has a cost only where computation is at least `COMPUTE_BOUND` of the step: then the group's share
of that.

## Fix
Lower precision for matrix products and convolutions, a layout that the hardware prefers, fused
kernels for chains of element-wise work, a better algorithm for the rest.

## Fix risk
Lower precision changes numerics; layouts and fusion may, in the last digits.

## When it abstains
When no computation was recorded; with fewer than `FEWEST_SLICES` pieces of it, of which one
always dominates, it is incomplete.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stepwhy.diagnoses._look import Group, enclosing, grouped, name_of
from stepwhy.diagnoses._rule import Rule
from stepwhy.findings import Evidence, Fix
from stepwhy.passes.launches import NO_CALL
from stepwhy.trace import Kind, Role

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepwhy.findings import Finding
    from stepwhy.passes.facts import Facts

RULE = Rule(
    id="dominant-op",
    family="compute",
    name="Where the computation goes",
    found="Make the largest operation cheaper",
    clear="No single kind of operation dominates the step",
    needs=(("device-time",), ("steps",)),
)

DOMINANT = 0.30  # of the summed compute time; a third in one place is worth a look of its own
WORTH_A_LOOK = 0.30  # of the step in computation; below it something else is the step's problem
FEWEST_SLICES = 10  # of computation; of fewer, one always dominates
COMPUTE_BOUND = 0.80  # of the step in computation; from here on it is what the step costs

# First match wins. Source: operator names of PyTorch and TensorFlow, kernel names of cuDNN, cuBLAS,
# MIOpen, Tensile ('Cijk_*') and Triton.
_FAMILIES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (family, re.compile(pattern, re.IGNORECASE))
    for family, pattern in (
        ("attention", r"attention|attn|flash|fmha"),
        ("convolution", r"conv|wgrad|dgrad|winograd|implicit_gemm|im2col"),
        ("normalisation", r"norm|(^|_)bn_"),
        ("matrix product", r"mm\b|gemm|matmul|Cijk_|linear|einsum|cublas|_ogs_|moe"),
        ("softmax", r"softmax|cross_entropy|nll_loss"),
        ("embedding", r"embedding|gather|scatter|index"),
        ("optimizer", r"adam|sgd|lamb|multi_tensor|foreach|Apply[A-Z]"),
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


def diagnose(facts: Facts) -> Finding:
    """Judge how much of the computation one kind of operation holds."""
    work = list(_work(facts))
    if not work:
        return RULE.no_data("No computation is recorded in the steps (signal 'device-activity').")
    if len(work) < FEWEST_SLICES:
        return RULE.incomplete("Too little computation is recorded to tell what dominates it.")
    families = grouped((family_of(name), dur_ns) for name, dur_ns in work)
    total_ns = sum(family.total_ns for family in families)
    top, share = families[0], families[0].total_ns / max(total_ns, 1)
    evidence = _evidence(facts, families, grouped(work), total_ns)
    if share < DOMINANT or facts.share("compute") < WORTH_A_LOOK:
        return RULE.nothing(evidence[:2])
    is_bound = facts.share("compute") >= COMPUTE_BOUND
    cost = round(share * facts.breakdown["compute"]) if is_bound else None
    return RULE.finding(cost, evidence, _FIXES.get(top.name, _ANY))


def family_of(name: str) -> str:
    """What an operation or kernel computes; its own name where it belongs to no family."""
    return next((family for family, pattern in _FAMILIES if pattern.search(name)), name)


def _work(facts: Facts) -> Iterator[tuple[str, int]]:
    """Name and duration in ns of all compute slices of the steady steps."""
    slices = facts.trace.slices
    caller = dict(
        zip(facts.launches.device_rows.tolist(), facts.launches.call_row.tolist(), strict=True)
    )
    for row in _rows(facts):
        call = caller.get(row, NO_CALL)
        op = enclosing(facts, call, Kind.OP) if call != NO_CALL else NO_CALL
        yield name_of(facts, op) or name_of(facts, row), int(slices.dur_ns[row])


def _rows(facts: Facts) -> list[int]:
    kinds, roles = facts.trace.slices.kind, facts.trace.tracks.role[facts.trace.slices.track]
    rows = {int(r) for a in facts.leading for r in facts.in_steady(a.rows)}
    compute = (Kind.KERNEL, Kind.MEMSET)
    host = (Kind.OP,)
    return sorted(
        r for r in rows if kinds[r] in (host if roles[r] == Role.HOST_THREAD else compute)
    )


def _evidence(
    facts: Facts, families: list[Group], ops: list[Group], total_ns: int
) -> tuple[Evidence, ...]:
    found = [Evidence("share of the step in computation", facts.share("compute"), "fraction")]
    found.extend(
        Evidence("share of the computation", g.total_ns / max(total_ns, 1), "fraction", g.name)
        for g in families[:3]
    )
    found.extend(
        Evidence("device time of the operation", facts.mean_ns(g.total_ns), "ns", g.name)
        for g in ops[:5]
    )
    return tuple(found)


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
    "Let a compiler fuse chains of element-wise work: they are bound by memory, not by arithmetic.",
    "model = torch.compile(model)",
    "changes-numerics",
)
_ATTENTION = Fix(
    "Use a fused attention that does not write the score matrix to memory.",
    "torch.nn.functional.scaled_dot_product_attention(query, key, value)",
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
