"""Random numbers that the operations of a graph generate as their own input."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from stepwhy.analyse.activity.selection import of_role
from stepwhy.analyse.facts import Facts
from stepwhy.base.columns.types import AnyRows
from stepwhy.base.patterns import regex
from stepwhy.diagnose.shared.slices import steady_work, strings_among
from stepwhy.trace import NULL, Kind, Role

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


def rows_of_random_input(facts: Facts, reads: Mapping[str, list[str]]) -> tuple[AnyRows, AnyRows]:
    """Work of the steady steps that generates random input, and all other; (slices,) each.

    Args:
        facts: Facts of the run.
        reads: Nodes that each node reads from.
    """
    return _rows(facts, random_input(_ops(facts), reads))


def _rows(facts: Facts, nodes: frozenset[str]) -> tuple[AnyRows, AnyRows]:
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
                is_element_wise = any(k.fullmatch(op) for k in (_ARRANGING, _COMBINING, _CHOOSING))
                (noise if is_element_wise else input_).add(node)
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


def _behind(nodes: set[str], made: set[str], reads: Mapping[str, list[str]]) -> set[str]:
    """Some nodes, and all nodes of `made` that they depend on."""
    found, todo = set(nodes), list(nodes)
    while todo:
        fresh = [n for n in reads.get(todo.pop(), ()) if n in made and n not in found]
        found.update(fresh)
        todo += fresh
    return found
