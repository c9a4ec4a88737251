"""The graph generates its own input in every step before it computes with it.

## What it means
Operations that generate random numbers run in each step, and the numbers are the input: images of a
benchmark, matrices of a product, synthetic labels. The rest of the step starts when they end.

## Why it costs
Generating random numbers on a CPU takes longer than many layers. It is easy to miss because it
looks like computation: any measurement of the step includes both.

## How it is measured
From the data flow of the graph. Random numbers are input if a product, a convolution or another
computing operation reads them, directly or after scaling, casting or slicing. They are not input if
they are combined element by element with other data: those are dropout masks and noise, which must
be new. The cost is the time of the steady steps in which the numbers are generated and nothing else
runs.

## Fix
If the numbers may be the same in each step, as in a benchmark, generate them once and keep them in
a variable. If they must be new, let an input pipeline generate them ahead, in parallel with the
step.

## Fix risk
Stored numbers are the same in every step: right for a benchmark, wrong if the training needs new
ones. Numbers generated ahead differ but have the same distribution, and require a free core.

## When it abstains
When the trace does not record which operation reads from which: only step statistics of TensorFlow
1 do. Input that is read, decoded or fed is not judged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepwhy.diagnoses.shared.measure import by_name, mean_within, on_scale, time_of
from stepwhy.diagnoses.shared.rule import Rule, saving
from stepwhy.diagnoses.shared.slices import steady_work, strings_among
from stepwhy.findings import Evidence, Fix
from stepwhy.passes.reads import reads_of
from stepwhy.passes.selection import of_role
from stepwhy.patterns import regex
from stepwhy.trace import NULL, Kind, Role

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from stepwhy.findings import Finding
    from stepwhy.passes.facts import Facts

    Rows = NDArray[np.signedinteger[Any]]

RULE = Rule(
    id="serial-input",
    family="input",
    name="Random input generated in the step",
    found="Generate the random input once, or ahead of the step",
    clear="The graph generates no random input that delays the step",
    needs=(("device-time",), ("kernels",), ("graph-ops",), ("steps",)),
)

SHARE = 0.25  # of the step; synthetic input stands for real input, which is not free either
LEAST_SAVED = 0.7  # of the cost; stored numbers still have to be read from memory

# Source: `random_ops.cc`, `stateful_random_ops.cc` and `stateless_random_ops*.cc` of TensorFlow.
_RANDOM = regex(
    r"(Stateless)?Random(StandardNormal|Normal|Uniform)(Int|FullInt)?(V2)?"
    r"|(Stateless|Parameterized)?TruncatedNormal(V2)?"
    r"|Stateful(StandardNormal|TruncatedNormal|Uniform)(Int|FullInt)?(V2)?"
)
# Rearrange, cut or transform element by element: the result is still random input.
_ARRANGING = regex(
    r"Floor|Round|Neg|Abs|Square|Sqrt|Exp|Log|ClipByValue|Cast|Identity|StopGradient|Reshape"
    r"|ExpandDims|Squeeze|Transpose|Slice|StridedSlice|Split|SplitV|Tile|OneHot"
)
# Combine two inputs element by element. If only one is recorded, the other may be anything.
_COMBINING = regex(
    r"Add|AddV2|Sub|Mul|RealDiv|Div|FloorDiv|FloorMod|Pow|Maximum|Minimum|Less|LessEqual|Greater"
    r"|GreaterEqual|ConcatV2|Pack"
)
_CHOOSING = regex(r"Select|SelectV2|Switch|Where|Logical(And|Or|Not)")
_CONSTANTS = frozenset({"Const", "HostConst"})
# Pass tensors on without computing with them.
_PASSED_ON = frozenset({"_Retval", "_Send", "_HostSend", "NoOp"})


def diagnose(facts: Facts) -> Finding:
    """Judge the time in which the step only generates random input."""
    reads = reads_of(facts)
    if not reads:
        return RULE.no_data("The trace does not record which operation reads from which.")
    rows, others = _rows(facts, random_input(_ops(facts), reads))
    alone = time_of(facts, rows) - time_of(facts, others)
    cost = on_scale(facts, mean_within(facts, alone), "compute")
    evidence = _evidence(facts, rows, cost)
    if cost < SHARE * facts.wall_ns:
        return RULE.nothing(evidence[:1])
    gain = saving("keep or prefetch random input", LEAST_SAVED * cost, cost)
    return RULE.finding(cost, evidence, _FIX, gain)


def _rows(facts: Facts, nodes: frozenset[str]) -> tuple[Rows, Rows]:
    """Work of some nodes in the steady steps, and of all other nodes; (slices,) each."""
    scope, rows = facts.trace.slices.scope, steady_work(facts, Kind.KERNEL, Kind.OP)
    rows = rows[scope[rows] != NULL]
    is_of_nodes = strings_among(facts, nodes)[scope[rows]]
    return rows[is_of_nodes], rows[~is_of_nodes]


def _ops(facts: Facts) -> dict[str, str]:
    """Op type of every node that ran in the steady steps."""
    trace, slices = facts.trace, facts.trace.slices
    streams = of_role(trace, Role.STREAM)
    rows = np.flatnonzero((slices.scope != NULL) & facts.is_steady)
    on_stream = streams[slices.track[rows]]
    # A slice on a stream may be a kernel or copy of the operation, so names of the host win.
    rows = np.append(rows[on_stream], rows[~on_stream])
    names = dict(zip(slices.scope[rows].tolist(), slices.name[rows].tolist(), strict=True))
    return {trace.string(scope): trace.string(names[scope]) for scope in sorted(names)}


def random_input(ops: Mapping[str, str], reads: Mapping[str, list[str]]) -> frozenset[str]:
    """Nodes that generate random input.

    Args:
        ops: Op type of every node that ran.
        reads: Nodes that each of them read from.
    """
    made = _made_of_random(ops, reads)
    readers: dict[str, list[str]] = {}
    for node, inputs in reads.items():
        for source in inputs:
            readers.setdefault(source, []).append(node)
    input_, noise = set[str](), set[str]()
    for node in made:
        for reader in readers.get(node, ()):
            op = ops.get(reader, "")
            if reader not in made and op not in _PASSED_ON:
                (noise if _is_element_wise(op) else input_).add(node)
    return frozenset(_behind(input_, made, reads) - _behind(noise, made, reads))


def _made_of_random(ops: Mapping[str, str], reads: Mapping[str, list[str]]) -> set[str]:
    """Nodes that generate random numbers, or transform only such numbers and constants."""
    made = {node for node, op in ops.items() if _RANDOM.fullmatch(op)}
    same = {node for node, op in ops.items() if op in _CONSTANTS}
    transforms = {node: set(found) for node, found in reads.items() if _keeps(ops.get(node), found)}
    while True:
        known = made | same
        more = {n for n, found in transforms.items() if made & found and known >= found} - made
        if not more:
            return made
        made |= more


def _keeps(op: str | None, inputs: list[str]) -> bool:
    """Whether an operation that reads random numbers returns random input again."""
    if op is None:
        return False
    combines = _COMBINING.fullmatch(op) is not None and len(inputs) > 1
    return combines or _ARRANGING.fullmatch(op) is not None


def _is_element_wise(op: str) -> bool:
    return any(kind.fullmatch(op) for kind in (_ARRANGING, _COMBINING, _CHOOSING))


def _behind(nodes: set[str], made: set[str], reads: Mapping[str, list[str]]) -> set[str]:
    """Some nodes, and all nodes of `made` that they depend on."""
    found, todo = set(nodes), list(nodes)
    while todo:
        fresh = [n for n in reads.get(todo.pop(), ()) if n in made and n not in found]
        found.update(fresh)
        todo += fresh
    return found


def _evidence(facts: Facts, rows: Rows, cost: int) -> tuple[Evidence, ...]:
    share = Evidence(
        "share of the step that only generates random input",
        cost / max(facts.wall_ns, 1),
        "fraction",
    )
    nodes = facts.trace.nodes
    lines = dict(zip(nodes.name.tolist(), nodes.source.tolist(), strict=True))
    scopes = facts.trace.slices.scope[rows]
    found = [share]
    for scope in set(scopes.tolist()):
        group = by_name(facts, rows[scopes == scope])[0]
        line = lines.get(scope, NULL)
        name = facts.trace.string(scope)
        where = f"{name} · {facts.trace.string(line)}" if line != NULL else name
        what = f"device time of {group.name}"
        found.append(Evidence(what, facts.mean_ns(group.total_ns), "ns", where))
    found[1:] = sorted(found[1:], key=lambda each: (-float(each.value), each.where))[:4]
    return tuple(found)


_FIX = Fix(
    "If the numbers may be the same in each step, as in a benchmark, generate them once and "
    "keep them in a variable. If they must be new, let an input pipeline generate them ahead "
    "of the step.",
    "# generated once, by the initializer:\n"
    "values = tf.random_normal([2000, 5000])\n"
    'a = tf.get_variable("a", initializer=values, trainable=False)\n'
    "# or new ones in each step, generated during the previous one:\n"
    "dataset = tf.data.Dataset.range(steps)\n"
    "dataset = dataset.map(lambda _: tf.random_normal([2000, 5000]))\n"
    "a = tf.data.make_one_shot_iterator(dataset.prefetch(2)).get_next()",
    "changes-numerics",
)
