"""Chains of small operations that a compiler would fuse.

## What it means
A normalisation, rotary embedding, activation or loss consists of several operations one after
another, each of which does little arithmetic per value.

## Why it costs
These operations are limited by memory bandwidth. Each reads and writes a whole tensor, while a
fused kernel reads the input once and writes the result once.

## How it is measured
A chain is at least `FEWEST` kernels in a row, in an eager program, that are element-wise
operations, reductions, copies or normalisations. The cost is the time of the chains in the steady
steps, less the longest kernel of each chain, because a fused kernel takes about that long. Type
conversions inside operations, and the update of the weights, do not count. Of several devices, the
busiest one is judged: they work at the same time.

On a CPU, chains of operations in the forward pass count, whatever views lie between them. The
backward pass repeats them, so that the saving may be twice the cost.

Distances of all pairs of vectors are such a chain, too, if they are made of the differences of the
vectors: these are as many values as pairs times features. In PyTorch, the shapes of arguments show
it, in JAX the instructions of compiled programs, in TensorFlow the graph, as `stepwhy run` sees it.
Vectors of fewer than eight features do not count, nor differences that anything else reads. The
cost is the time of the lines that make, square and add up the differences, forward and backward.

## Fix
Let a compiler fuse the model, or use the library's operation.

## Fix risk
The last digits differ. The first steps take longer because they compile, and so does the first step
with each new shape.

## When it abstains
Without host operations, outside of PyTorch but for distances, where a compiler made some of the
kernels, and when most kernels of an accelerator cannot be attributed to an operation, as with CUDA
graphs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stepwhy.base.columns.groups import distinct
from stepwhy.base.columns.sums import total_of
from stepwhy.base.columns.types import AnyRows
from stepwhy.base.patterns import regex
from stepwhy.diagnose.compute.shared.calls import (
    NOT_ATTRIBUTED,
    Calls,
    attributes_calls,
    calls_in_order,
    converting,
    on_device,
)
from stepwhy.diagnose.compute.shared.pair_differences import PASSES_ON, pair_differences
from stepwhy.diagnose.shared.eager_calls import eager_loop
from stepwhy.diagnose.shared.measure import Group, grouped, mean_within, on_scale, time_of, times
from stepwhy.diagnose.shared.precision import faster_type
from stepwhy.diagnose.shared.program import is_compiled, is_pytorch, replays_graphs
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Rule, saving
from stepwhy.diagnose.shared.slices import launched_ops
from stepwhy.trace import NULL, Phase, among

Range = tuple[int, int]

RULE = Rule(
    __name__,
    name="Chains of small operations",
    found="Fuse chains of small operations",
    clear="Chains of small operations take little time",
    needs=(("host-ops",), ("device-time",), ("kernels",), ("steps",)),
    least_share=0.10,  # of the step; below it, compiling is not worth the trouble
    least_saved=0.3,  # of the cost; compilers do not fuse every chain completely
    change="fuse small operations",
)

# Of the cost: the distances themselves remain, but large differences displace other data.
LEAST_SAVED_OF_PAIRS, MOST_SAVED_OF_PAIRS = 0.6, 1.3
FEWEST = 4  # kernels of a chain; in a shorter one, fusion saves little
MOST_SAVED_ON_CPU = 2.0  # of the cost; the backward pass has as many operations
# Source: operators of PyTorch that its compiler fuses.
_SMALL = regex(
    r"aten::(add|sub|rsub|mul|div|pow|square|sqrt|rsqrt|reciprocal|neg|abs|exp|log|sin|cos|tanh"
    r"|sigmoid|silu|gelu|relu|leaky_relu|softplus|threshold|clamp|clamp_(min|max)|lerp|addcmul"
    r"|addcdiv|mean|sum|var|var_mean|std|copy|cat|where|masked_fill|fill|eq|ne|lt|gt|le|ge"
    r"|native_layer_norm|_softmax|native_dropout"
    r"|subtract|multiply|divide|true_divide|negative|absolute|clip|concat|concatenate)_?"
)
# Source: formulas of the operations.
_NAMES = (
    ("GELU", ("tanh", "add", "mul")),
    ("layer normalisation", ("mean", "sub", "pow", "mean")),
    ("RMS normalisation", ("pow", "mean", "add", "rsqrt", "mul")),
    ("rotary embedding", ("neg", "cat")),
    ("layer normalisation", ("native_layer_norm",)),
)


def diagnose(facts: Facts) -> Finding:
    """Judge the time of chains of small operations on the busiest device."""
    lines = pair_differences(facts)
    if sum(line.total_ns for line in lines) >= RULE.least_share * facts.wall_ns:
        return _of_pairs(facts, lines)
    if not is_pytorch(facts):
        return RULE.not_applicable("Chains are recognised only among PyTorch's operations.")
    if not facts.has_accelerator:
        return _on_cpu(facts)
    if not attributes_calls(facts):
        return RULE.incomplete("kernel-launches", NOT_ATTRIBUTED)
    if is_compiled(facts) or replays_graphs(facts):
        return RULE.not_applicable("A compiler made some of the kernels, or a graph is replayed.")
    calls, device = calls_in_order(facts).on_busiest_device(facts)
    chains = _chains(facts, calls)
    cost = _cost_ns(facts, calls, chains)
    evidence = on_device(_evidence(facts, calls, chains, cost), device)
    fix = RULE.fix("library" if faster_type(facts) == "none" else "compile")
    edit = Edit("kernels", "fused", host_ns=_host_ns(facts, calls, chains))
    return RULE.judge(facts, cost, evidence, fix, shown=2, edit=edit)


def _of_pairs(facts: Facts, lines: list[Group]) -> Finding:
    """Judge the lines that make distances of differences."""
    cost = min(sum(line.total_ns for line in lines), facts.wall_ns)
    share = Evidence(_OF_PAIRS, cost / max(facts.wall_ns, 1), "fraction", lines[0].name)
    at = (Evidence("time at the line", one.total_ns, "ns", one.name) for one in lines[:_SHOWN])
    most = min(MOST_SAVED_OF_PAIRS * cost, facts.wall_ns)
    gain = saving("a product of matrices", LEAST_SAVED_OF_PAIRS * cost, most)
    fix = RULE.fix(_OF_FRAMEWORK.get(facts.trace.meta.framework, "pairs"))
    edit = Edit("ops", "replaced", cost_ns=cost)
    return RULE.finding(cost, (share, *at), fix, gain, edit, title=_BY_PRODUCT)


def _on_cpu(facts: Facts) -> Finding:
    """Judge the chains of operations that the program launches itself, on a CPU."""
    if is_compiled(facts):
        return RULE.not_applicable("A compiler made some of the operations.")
    if eager_loop(facts) is not None:
        return RULE.nothing()  # `eager-loop` judges small operations
    rows = launched_ops(facts)
    rows = rows[~facts.in_input[rows]]
    rows = rows[~facts.trace.matches(facts.trace.slices.name[rows], PASSES_ON.fullmatch)]
    chains = [rows[first:end] for first, end in _forward_chains(facts, rows)]
    durations = facts.trace.slices.dur_ns
    beyond = sum(total_of(durations[chain]) - int(durations[chain].max()) for chain in chains)
    cost = on_scale(facts, facts.mean_ns(float(beyond)), "compute")
    share = Evidence(_BEYOND_LONGEST, cost / max(facts.wall_ns, 1), "fraction")
    if cost < RULE.least_share * facts.wall_ns:
        return RULE.nothing((share,))
    names = facts.trace.slices.name
    named = ([facts.trace.string(name) for name in names[chain].tolist()] for chain in chains)
    each = (
        (_described(ops), total_of(durations[chain]))
        for ops, chain in zip(named, chains, strict=True)
    )
    evidence = (
        share,
        Evidence("chains per step", len(chains) / max(facts.steady_count, 1), "count"),
        *times(facts, "time of the chain", grouped(each)[:3]),
    )
    gain = saving("fuse small operations", RULE.least_saved * cost, MOST_SAVED_ON_CPU * cost)
    return RULE.finding(cost, evidence, RULE.fix("cpu"), gain)


def _forward_chains(facts: Facts, rows: AnyRows) -> list[Range]:
    """First and last position, exclusive, of each chain among operations in order."""
    slices = facts.trace.slices
    small = facts.trace.matches(slices.name[rows], _SMALL.fullmatch)
    small &= ~among(facts.phases[rows], (Phase.OPTIMIZER, Phase.BACKWARD))
    step = np.searchsorted(facts.steps.starts, slices.start_ns[rows], side="right")
    changes = np.zeros(len(rows), dtype=bool)
    for column in (small, step, slices.track[rows]):
        changes[1:] |= column[1:] != column[:-1]
    changes[:1] = True
    starts = np.flatnonzero(changes)
    ends = np.append(starts[1:], len(rows))[: len(starts)]
    chosen = small[starts] & (ends - starts >= FEWEST)
    return list(zip(starts[chosen].tolist(), ends[chosen].tolist(), strict=True))


def _host_ns(facts: Facts, calls: Calls, chains: Sequence[Range]) -> int:
    """Time of the host in the operations of chains, without one operation of each, ns."""
    inside = np.zeros(len(calls.rows), dtype=bool)
    for first, end in chains:
        inside[first:end] = True
    return round(calls.host_ns(facts, inside) * (1 - len(chains) / max(int(inside.sum()), 1)))


def _chains(facts: Facts, calls: Calls) -> list[Range]:
    """First and last call, exclusive, of each chain."""
    small = calls.matching(facts, (_SMALL,)) == 0
    small &= (converting(facts, calls) == NULL) & (facts.phases[calls.ops] != Phase.OPTIMIZER)
    begins = np.append(True, calls.tracks[1:] != calls.tracks[:-1])[: len(small)]
    begins |= np.append(True, small[1:] != small[:-1])[: len(small)]
    starts = np.flatnonzero(begins)
    ends = np.append(starts[1:], len(small))[: len(starts)]
    chosen = small[starts] & (ends - starts >= FEWEST)
    return list(zip(starts[chosen].tolist(), ends[chosen].tolist(), strict=True))


def _cost_ns(facts: Facts, calls: Calls, chains: Sequence[Range]) -> int:
    """Time of the mean step in chains, without the longest kernel of each, ns."""
    if not chains:
        return 0
    durations = facts.trace.slices.dur_ns[calls.rows]
    inside = np.concatenate([np.arange(*chain) for chain in chains])
    longest = sum(int(durations[first:end].max()) for first, end in chains)
    # Streams may work at the same time.
    time = mean_within(facts, time_of(facts, calls.rows[inside]))
    beyond = 1 - longest / max(total_of(durations[inside]), 1)
    return on_scale(facts, round(time * beyond), "compute")


def _evidence(
    facts: Facts, calls: Calls, chains: Sequence[Range], cost: int
) -> tuple[Evidence, ...]:
    steps, share = max(facts.steady_count, 1), cost / max(facts.wall_ns, 1)
    names, durations = facts.trace.slices.name[calls.ops], facts.trace.slices.dur_ns[calls.rows]
    count = sum(end - first for first, end in chains)
    found = [
        Evidence(_BEYOND_LONGEST, share, "fraction"),
        Evidence("chains per step", len(chains) / steps, "count"),
        Evidence("kernels in chains per step", count / steps, "count"),
    ]
    texts = {int(name): facts.trace.string(int(name)) for name in distinct(names)}
    each = (
        (_described([texts[name] for name in names[first:end].tolist()]), total)
        for first, end in chains
        for total in (total_of(durations[first:end]),)
    )
    found.extend(times(facts, "time of the chain", grouped(each)[:3]))
    return tuple(found)


_SHOWN = 3
_OF_FRAMEWORK = {"tensorflow": "pairs-tf", "jax": "pairs-jax"}
_OF_PAIRS = "share of the step in differences of all pairs"
_BY_PRODUCT = "Compute distances of all pairs by a product of matrices, not by their differences"
_BEYOND_LONGEST = "share of the step beyond the longest kernel of each chain"
_MOST_SHOWN = 12  # operations; a longer chain does not fit into a line


def _described(ops: Sequence[str]) -> str:
    """The operations of a chain, and what it computes as far as that is known."""
    plain = [op.removeprefix("aten::").rstrip("_") for op in ops]
    shown = " ".join(plain[:_MOST_SHOWN]) + (" ..." if len(plain) > _MOST_SHOWN else "")
    # Type conversions may stand in between.
    text = " ".join(["", *(op for op in plain if op != "copy"), ""])
    known = [name for name, part in _NAMES if f" {' '.join(part)} " in text]
    return f"{', '.join(known)}: {shown}" if known else shown
