"""Graphs as the runtime placed them and as the program wrote them, free of protobuf's types."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from stepwhy.read.shared.tensorflow.device_spec import canonical_name
from stepwhy.read.shared.tensorflow.labels import edge_node
from stepwhy.trace import NULL, Dependence

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

_SENDS = frozenset({"_Send", "_HostSend"})
_RECEIVES = frozenset({"_Recv", "_HostRecv"})
_COLOCATION = "loc:@"
_VARIABLES = frozenset({"Variable", "VariableV2", "VarHandleOp"})
_SHAPES = frozenset({"Shape", "ShapeN", "Size", "Rank"})

# Bytes of one element by DataType number (`types.proto`); strings, resources and variants have
# no size of their own.
_ELEMENT_BYTES = {
    **dict.fromkeys((4, 6, 10, 11, 12), 1),  # (u)int8, bool, quantised
    **dict.fromkeys((5, 14, 15, 16, 17, 19), 2),  # (u)int16, bfloat16, half
    **dict.fromkeys((1, 3, 13, 22), 4),  # float, (u)int32
    **dict.fromkeys((2, 8, 9, 23), 8),  # double, complex64, (u)int64
    18: 16,  # complex128
}


class Node(NamedTuple):
    """A node of a graph.

    Args:
        name: Name with its name scope.
        op: Op type as written.
        device: Canonical device; '' if it has none.
        inputs: Names of producing nodes, without output numbers; data inputs only.
        colocated: Node that it is bound to, '' when none.
    """

    name: str
    op: str
    device: str
    inputs: tuple[str, ...]
    colocated: str


class Edge(NamedTuple):
    """A tensor that crosses from one device to another.

    Args:
        tensor: Its name in the rendezvous.
        source: Node that produces it.
        slot: Which of the node's outputs it is; NULL when nothing but the order of execution
            crosses (a control edge).
        consumer: Node that reads it as the sender knows; '' when not recorded.
        receiver: Name of the receiving node; '' when no partition has it.
        from_device: Sending device, canonical.
        to_device: Receiving device, canonical.
        bytes: Size by static shape and type, NULL when not known.
    """

    tensor: str
    source: str
    slot: int
    consumer: str
    receiver: str
    from_device: str
    to_device: str
    bytes: int


def dependences(graph: Mapping[str, Node]) -> dict[str, Dependence]:
    """What the value of each node is computed from; empty for a graph without variables.

    Shapes are not followed: the shape of an activation does not depend on the weights.

    Args:
        graph: The nodes of the program's graph by name.
    """
    roots = {name: _root(node) for name, node in graph.items()}
    if Dependence.VARIABLES not in roots.values():
        return {}
    readers: dict[str, list[str]] = {}
    for name, node in graph.items():
        for producer in node.inputs:
            readers.setdefault(producer, []).append(name)
    of_variables, of_data = (
        _reached(graph, readers, [name for name, root in roots.items() if root is kind])
        for kind in (Dependence.VARIABLES, Dependence.DATA)
    )
    return {name: _dependence(name in of_variables, name in of_data) for name in graph}


def _root(node: Node) -> Dependence | None:
    if node.op in _VARIABLES:
        return Dependence.VARIABLES
    return None if node.inputs else Dependence.DATA


def _reached(
    graph: Mapping[str, Node], readers: Mapping[str, list[str]], roots: Iterable[str]
) -> set[str]:
    """Nodes whose values depend on the roots, and the roots themselves."""
    reached, waiting = set(roots), list(roots)
    while waiting:
        name = waiting.pop()
        new = [] if graph[name].op in _SHAPES else readers.get(name, ())
        new = [reader for reader in new if reader not in reached]
        reached.update(new)
        waiting.extend(new)
    return reached


def _dependence(of_variables: bool, of_data: bool) -> Dependence:
    if of_variables:
        return Dependence.BOTH if of_data else Dependence.VARIABLES
    return Dependence.DATA if of_data else Dependence.SHAPES


def text(data: bytes) -> str:
    """A string field, with replacements where it is not UTF-8."""
    return data.decode("utf-8", errors="replace")


def nodes_of(graphs: Iterable[Any]) -> Iterator[Node]:
    """Nodes of GraphDef messages, without the sends and receives that partitioning adds."""
    for graph in graphs:
        for node in graph.node:
            op = text(node.op)
            if op not in _SENDS and op not in _RECEIVES:
                yield _node(node, op)


def edges_of(graphs: Iterable[Any]) -> list[Edge]:
    """Tensors that cross devices: the pairs of sends and receives in partition graphs.

    Feeds and fetches, which the client terminates, are not among them.

    Args:
        graphs: GraphDef messages; iterated more than once.
    """
    receivers = {}
    sends = []
    for node in (node for graph in graphs for node in graph.node):
        op = text(node.op)
        if op in _RECEIVES:
            receivers[_rendezvous_key(node)] = text(node.name)
        elif op in _SENDS and not _attr(node, b"client_terminated", "b"):
            sends.append(_send(node))
    sends = [s for s in sends if s.edge.from_device != s.edge.to_device]
    sizes = _static_sizes(graphs, {(s.edge.source, s.edge.slot) for s in sends if s.is_data})
    return [_edge(s, receivers.get(s.key, ""), sizes) for s in sends]


def _node(node: Any, op: str) -> Node:
    data_inputs = (text(i) for i in node.input if not i.startswith(b"^"))
    # The node of a 'loc:@node' class, '' if it is the node itself.
    classes = _attr(node, b"_class", "list")
    names = (text(c) for c in classes.s) if classes is not None else ()
    bound = (n.removeprefix(_COLOCATION) for n in names if n.startswith(_COLOCATION))
    colocated = next((n for n in bound if n != text(node.name)), "")
    return Node(
        text(node.name),
        op,
        canonical_name(text(node.device)),
        tuple(_producer(i)[0] for i in data_inputs),
        colocated,
    )


class _Send(NamedTuple):
    """A send node: its edge without the receiver, its rendezvous, and the type of the tensor."""

    edge: Edge
    key: tuple[str, str, str]
    dtype: int | None
    is_data: bool


def _send(node: Any) -> _Send:
    sent, slot = _producer(text(node.input[0])) if node.input else ("", 0)
    tensor, sender, to_device = key = _rendezvous_key(node)
    # A control edge sends an empty constant in place of the node that has to come first.
    source = edge_node(tensor) if tensor.startswith("edge_") else sent
    is_data = sent == source
    edge = Edge(
        tensor,
        source,
        slot if is_data else NULL,
        text(_attr(node, b"_dst", "s") or b""),
        "",
        canonical_name(sender),
        canonical_name(to_device),
        0,
    )
    return _Send(edge, key, _attr(node, b"T", "type"), is_data)


def _edge(send: _Send, receiver: str, sizes: dict[tuple[str, int], int]) -> Edge:
    elements = sizes.get((send.edge.source, send.edge.slot), NULL)
    size = _static_bytes(send.dtype, elements) if send.is_data else 0
    return send.edge._replace(receiver=receiver, bytes=size)


def _producer(name: str) -> tuple[str, int]:
    """Node and output number of an input: 'x:1' -> ('x', 1), '^x' -> ('x', 0)."""
    node, _, slot = name.removeprefix("^").partition(":")
    return node, int(slot) if slot.isdecimal() and len(slot) < 10 else 0


def _rendezvous_key(node: Any) -> tuple[str, str, str]:
    """What a send and its receive agree on: tensor, sending and receiving device."""
    tensor, sender, receiver = (
        text(_attr(node, key, "s") or b"")
        for key in (b"tensor_name", b"send_device", b"recv_device")
    )
    return tensor, sender, receiver


def _attr(node: Any, key: bytes, field: str) -> Any:
    return next((getattr(a.value, field) for a in node.attr if a.key == key), None)


def _static_sizes(
    graphs: Iterable[Any], outputs_of: Collection[tuple[str, int]]
) -> dict[tuple[str, int], int]:
    """Number of elements of the given outputs, by node and output number, if it is static."""
    sizes = {}
    names = {name for name, _ in outputs_of}
    for node in (node for graph in graphs for node in graph.node) if names else ():
        name = text(node.name)
        outputs = _attr(node, b"_output_shapes", "list") if name in names else None
        for slot, shape in enumerate(outputs.shape if outputs is not None else ()):
            if (name, slot) in outputs_of:
                sizes[name, slot] = _elements(shape)
    return sizes


def _elements(shape: Any) -> int:
    sizes = [d.size for d in shape.dim]
    return NULL if shape.unknown_rank or any(s < 0 for s in sizes) else prod(sizes)


def _static_bytes(dtype: int | None, elements: int) -> int:
    element = _ELEMENT_BYTES.get(dtype or 0)
    if element is None or elements == NULL:
        return NULL
    total = element * elements
    return total if total < 1 << 62 else NULL
