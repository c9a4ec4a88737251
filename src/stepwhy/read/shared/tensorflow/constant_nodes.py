"""Nodes of a program's graph that compute the same in every run.

TensorFlow computes from constants before the first run, but not from variables, although a program
may never assign some of them: an adjacency matrix, or pretrained vectors that are not trained.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.base.patterns import regex

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stepwhy.read.shared.tensorflow.graphs import Node

_VARIABLES = frozenset({"Variable", "VariableV2", "VarHandleOp"})
# Of all operations with a variable as an input, these do not change it. A resource may be changed
# by any other, such as a call of a function that assigns it.
_READS = frozenset(
    {
        "Identity", "ReadVariableOp", "VarIsInitializedOp", "IsVariableInitialized", "SaveV2",
        "VariableShape", "ResourceGather", "ResourceGatherNd", "GatherV2", "Gather", "GatherNd",
        "Shape", "MatMul", "Mul", "AddV2", "Add", "Sub", "RealDiv", "Sum", "L2Loss", "Transpose",
        "Cast",
    }
)  # fmt: skip
_OWN_JOB = "/job:localhost"
_ASSIGNS = frozenset({"Assign", "AssignVariableOp"})
_RESTORES = frozenset({"RestoreV2", "Restore", "RestoreSlice"})
# Operations whose result differs although their inputs do not, or that belong to control flow or to
# functions; source: tensorflow/core/ops/*.cc, ops that are stateful.
_CHANGES = regex(
    r"(?i).*(random|uniform|normal|multinomial|poisson|gamma|bernoulli|shuffle|sampler?$|dropout"
    r"|placeholder|iterator|dataset|queue|dequeue|stage|pyfunc|reader|readfile|table|lookup|print"
    r"|assert|summary|assign|apply|scatter|accumulat|timestamp|switch|merge|enter|exit|iteration"
    r"|loopcond|call|while|^if$|case|stateful|tensorarray|stack|barrier|generat|collective|send"
    r"|recv|handle|restore|save|write).*"
)


def constant_nodes(graph: Mapping[str, Node]) -> frozenset[str]:
    """Constants, variables that only their initialisation assigns, and what is computed from them.

    Args:
        graph: The nodes of the program's graph by name.

    Returns:
        Names of the nodes.
    """
    readers: dict[str, list[str]] = {}
    for name, node in graph.items():
        for producer in set(node.inputs):
            readers.setdefault(producer, []).append(name)
    roots = {name for name, node in graph.items() if _is_root(graph, node, readers.get(name, ()))}
    found = roots
    waiting = [reader for root in tuple(roots) for reader in readers.get(root, ())]
    while waiting:
        name = waiting.pop()
        node = graph[name]
        if name not in found and _is_constant(node, found):
            found.add(name)
            waiting += readers.get(name, ())
    return frozenset(found)


def _is_root(graph: Mapping[str, Node], node: Node, readers: Iterable[str]) -> bool:
    if node.op == "Const":
        return not node.inputs
    # The variables of a parameter server may be assigned by the graph of another process.
    is_own = not node.device.startswith("/job:") or node.device.startswith(_OWN_JOB)
    return (
        node.op in _VARIABLES
        and is_own
        and all(_leaves(graph, node, graph[name]) for name in readers)
    )


def _leaves(graph: Mapping[str, Node], variable: Node, reader: Node) -> bool:
    """Whether a node leaves a variable as it is, but for its first value or a checkpoint's."""
    if reader.op not in _ASSIGNS:
        return reader.op in _READS
    value = _source_op(graph, reader.inputs[-1])
    return reader.name == f"{variable.name}/Assign" or value in _RESTORES


def _source_op(graph: Mapping[str, Node], name: str) -> str:
    """Op type of a node, or of what it only passes on."""
    for _ in range(len(graph)):
        node = graph.get(name)
        if node is None or node.op != "Identity" or not node.inputs:
            break
        name = node.inputs[0]
    return graph[name].op if name in graph else ""


def _is_constant(node: Node, found: set[str]) -> bool:
    reads_resource = node.op in {"ReadVariableOp", "ResourceGather", "ResourceGatherNd"}
    is_same = reads_resource or not _CHANGES.fullmatch(node.op)
    return is_same and all(name in found for name in node.inputs)
