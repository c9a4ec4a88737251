"""Activations are stored in a different layout than the convolutions use.

## What it means
Around convolutions, tensors are converted from channels first (NCHW) to channels last (NHWC), or
back: by the program, by the graph optimizer, or by the convolution library.

## Why it costs
A conversion reads and writes a whole activation without computing anything. One conversion of the
input is enough; if each convolution has its own, activations are stored in the wrong layout for the
device.

## How it is measured
From the conversions in the trace and their time in the steady steps: transpositions in the name
scope of a convolution, at least as many as convolutions there, with their gradients; in PyTorch,
copies of permuted tensors right before or after convolutions of images, as many, with those inside
the gradients of the convolutions; nodes that the layout optimizer inserted; and the conversion
kernels of cuDNN and MIOpen. Which layout is better depends on device and data type (matrix units
want channels last, older accelerators channels first, TensorFlow's kernels for a CPU channels
last), so stepwhy derives it from the names of the conversions and of the convolution kernels. The
cost is the total time of the conversions. Other operations may be slower in the other layout, or
faster, as the batch norms of PyTorch are on GPUs.

## Fix
Keep all activations in the layout of the convolutions, from the input to the last convolution.

## Fix risk
The last digits of results may change. PyTorch checkpoints stay valid. In TensorFlow, convolution
kernels do as well, but dense layers after a flattening need their rows in another order.

## When it abstains
When a compiler chooses the layouts. `incomplete` when a library converts but the trace does not
show which layout it uses, and on a CPU without visible conversions, because oneDNN converts inside
its convolutions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from stepwhy.base.columns.groups import distinct
from stepwhy.base.columns.types import AnyRows, Ints, Mask
from stepwhy.base.patterns import regex
from stepwhy.diagnose.compute.shared.batch_norm import CONVOLUTION, count_of
from stepwhy.diagnose.compute.shared.permuted import permuted_copies
from stepwhy.diagnose.shared.measure import by_name, mean_within, on_scale, time_of, times
from stepwhy.diagnose.shared.program import is_pytorch
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Fix, Rule, saving
from stepwhy.diagnose.shared.slices import ops_of_nodes, scopes_among, strings_of
from stepwhy.diagnose.shared.work_lines import times_at_lines
from stepwhy.read.kernel_names import Family, kernel_row, own_name
from stepwhy.trace import NULL, Kind

RULE = Rule(
    __name__,
    name="Activations in a different layout than the convolutions",
    found="Keep activations in the layout of the convolutions",
    clear="Layout conversions around convolutions take little or no time",
    needs=(("device-time",), ("kernels",), ("steps",)),
)

SHARE = 0.05  # of the step; below it the gain is less than the variation between steps
LEAST_SAVED = 0.3  # of the cost; other operations may be slower in the other layout

# Source: kernels of cuDNN ('cudnn::ops::nchwToNhwcKernel') and MIOpen
# ('batched_transpose_16x32_half', 'transpose_NCHW2CNHW_V2_2D'), nodes of TensorFlow's layout
# optimizer ('conv-0-0-TransposeNHWCToNCHW-LayoutOptimizer').
_LIBRARY = regex(
    r"(?P<last>nchwToNhwc)|(?P<first>nhwcToNchw)|batched_transpose_\d+x\d+"
    r"|transpose_(NCHW2\w+|\w+2NCHW)",
)
_OPTIMIZER = regex(
    r"(?P<last>NCHWToNHWC)(?=.*LayoutOptimizer)|(?P<first>NHWCToNCHW)(?=.*LayoutOptimizer)"
    r"|LayoutOptimizer"
)
# Kernels of PyTorch for channels first. In channels last, those of bfloat16 values took 0.6 times
# as long on an H100.
_NORM = regex(r"batch_norm_(?!.*channels_last)")
_FASTER_NORMS = 0.4
_GRADIENT = regex(r"(?:.*/)?gradients(?:_\d+)?/(?P<node>.+?)_grad/.+")
_UNKNOWN_LAYOUT = (
    "A library converts layouts, but the trace does not show which one its convolutions use."
)
_TRANSPOSE = frozenset({"Transpose", "ConjugateTranspose"})
# Kernels that the table of names does not know; no conversions.
_KERNEL = regex(r"conv(?!er)", re.IGNORECASE)


def diagnose(facts: Facts) -> Finding:
    """Judge the time of conversions around convolutions."""
    if facts.trace.meta.framework == "jax":
        return RULE.not_applicable("The compiler chooses the layouts.")
    by_library = _library_rows(facts)
    by_program = np.concatenate([_program_rows(facts), permuted_copies(facts)])
    rows = distinct(np.concatenate([by_library, by_program]))
    cost = on_scale(facts, mean_within(facts, time_of(facts, rows)), "compute")
    evidence = _evidence(facts, rows, cost)
    if cost and cost >= SHARE * facts.wall_ns:
        if not len(by_program) and not _shows_layout(facts, rows):
            return RULE.incomplete("layouts", _UNKNOWN_LAYOUT, evidence)
        edit = "remove conversions of layouts (bound: all of their time)"
        gain = saving(edit, LEAST_SAVED * cost, cost + _of_norms(facts, by_library))
        return RULE.finding(
            cost, evidence, _fix(facts, by_library, by_program), gain, Edit("ops", "replaced")
        )
    if not _convolves(facts):
        return RULE.nothing((Evidence("convolutions", 0, "count"),))
    if not len(rows) and not facts.has_accelerator:
        return RULE.incomplete(
            "layouts",
            "On a CPU, the library converts layouts inside its convolutions, which traces do "
            "not show.",
        )
    return RULE.nothing(evidence[:2])


def _of_norms(facts: Facts, by_library: AnyRows) -> float:
    """Time per step that the batch norms between the convolutions may save as well, ns."""
    if not len(by_library) or not is_pytorch(facts):
        return 0.0
    rows = facts.slices(Kind.KERNEL, steady=True)
    norms = rows[_flags(facts, facts.trace.slices.name, _NORM)[facts.trace.slices.name[rows]]]
    return _FASTER_NORMS * on_scale(facts, mean_within(facts, time_of(facts, norms)), "compute")


def _shows_layout(facts: Facts, rows: Ints) -> bool:
    """Whether the name of a kernel or conversion shows which layout the convolutions use."""
    names = map(facts.trace.string, strings_of(facts, facts.trace.slices.name, Kind.KERNEL))
    named = any("nhwc" in name.lower() for name in names)
    return named or any(len(_going(facts, rows, way)) for way in ("last", "first"))


def _convolves(facts: Facts) -> bool:
    if count_of(facts, CONVOLUTION):
        return True
    kernels = strings_of(facts, facts.trace.slices.name, Kind.KERNEL)
    return any(map(_is_convolution, map(facts.trace.string, kernels)))


def _is_convolution(kernel: str) -> bool:
    row = kernel_row(kernel)
    if row is None:
        return _KERNEL.search(own_name(kernel)) is not None
    return row.family is Family.CONVOLUTION


def _library_rows(facts: Facts) -> AnyRows:
    """Conversion kernels of a library or of nodes from the layout optimizer; (slices,)."""
    slices = facts.trace.slices
    names = _flags(facts, slices.name, _LIBRARY)
    nodes = _flags(facts, slices.scope, _OPTIMIZER)
    rows = facts.slices(Kind.KERNEL, steady=True)
    found: AnyRows = rows[names[slices.name[rows]] | nodes[slices.scope[rows]]]
    return found


def _flags(facts: Facts, column: NDArray[np.int32], pattern: re.Pattern[str]) -> Mask:
    """Mask of the strings of kernels that match a pattern; (strings + 1,)."""
    found = np.zeros(len(facts.trace.strings) + 1, dtype=bool)
    used = strings_of(facts, column, Kind.KERNEL)
    found[[key for key in used if pattern.search(facts.trace.string(key))]] = True
    return found


def _program_rows(facts: Facts) -> AnyRows:
    """Device work of transpositions that the program put around convolutions; (slices,)."""
    text = facts.trace.string
    named = ops_of_nodes(facts, Kind.KERNEL, Kind.OP).items()
    ops = {text(scope): text(name) for scope, name in named}
    return scopes_among(facts, _around_convolutions(ops), Kind.KERNEL)


def _around_convolutions(ops: Mapping[str, str]) -> frozenset[str]:
    """Transpositions around convolutions, and their gradients.

    A scope counts if it has at least as many transpositions as convolutions: one or two after a
    stack of convolutions are not around each of them.

    Args:
        ops: Op type of every node.
    """
    forward = {node: op for node, op in ops.items() if _GRADIENT.fullmatch(node) is None}
    convolutions = Counter(_scope(n) for n, op in forward.items() if CONVOLUTION.fullmatch(op))
    transposes = Counter(_scope(n) for n, op in forward.items() if op in _TRANSPOSE)
    scopes = {s for s, count in convolutions.items() if transposes[s] >= count}
    return frozenset(
        node for node, op in ops.items() if op in _TRANSPOSE and _scope(_original(node)) in scopes
    )


def _original(node: str) -> str:
    """The forward node of a gradient node; any other node itself."""
    match = _GRADIENT.fullmatch(node)
    return match["node"] if match else node


def _scope(node: str) -> str:
    return node.rpartition("/")[0]


def _evidence(facts: Facts, rows: Ints, cost: int) -> tuple[Evidence, ...]:
    per_step = len(rows) / max(facts.steady_count, 1)
    evidence = [
        Evidence("conversions around convolutions per step", per_step, "count"),
        Evidence("share of the step in conversions", cost / max(facts.wall_ns, 1), "fraction"),
    ]
    for way, what in (("last", "to channels last"), ("first", "to channels first")):
        there = _going(facts, rows, way)
        if len(there):
            time = mean_within(facts, time_of(facts, there))
            evidence.append(Evidence(f"time in conversions {what}", time, "ns"))
    evidence.extend(times(facts, "time of the conversion", by_name(facts, rows)[:3]))
    return (*evidence, *times_at_lines(facts, rows))


def _going(facts: Facts, rows: Ints, way: str) -> Ints:
    """Conversions to channels last ('last') or first ('first'), by their name."""
    slices, text = facts.trace.slices, facts.trace.string

    def goes(row: int) -> bool:
        node = text(int(slices.scope[row])) if slices.scope[row] != NULL else ""
        match = _LIBRARY.search(text(int(slices.name[row]))) or _OPTIMIZER.search(node)
        return match is not None and bool(match[way])

    return np.array([row for row in rows.tolist() if goes(row)], dtype=np.int64)


def _fix(facts: Facts, by_library: Ints, by_program: Ints) -> Fix:
    if len(by_program) > len(by_library):
        return RULE.fix("permuted" if is_pytorch(facts) else "transposed")
    if facts.trace.meta.framework != "tensorflow":
        return _channels_last(facts, by_library)
    to_first = len(_going(facts, by_library, "first")) >= len(_going(facts, by_library, "last"))
    return RULE.fix("tf-first" if to_first else "tf-last")


def _channels_last(facts: Facts, rows: Ints) -> Fix:
    """How to keep that layout in PyTorch; MIOpen needs a setting for it."""
    if not is_pytorch(facts):
        return RULE.fix("any")
    by_miopen = facts.trace.matches(facts.trace.slices.name[rows], _MIOPEN.search).any()
    return RULE.fix("channels-last-amd" if by_miopen else "channels-last")


_MIOPEN = regex(r"batched_transpose|transpose_NCHW2|2NCHW")
