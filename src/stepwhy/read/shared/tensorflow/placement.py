"""The placement tables: what each node asked for, where it ran, and the copies that follow."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from stepwhy.read.shared.tensorflow.constant_nodes import constant_nodes
from stepwhy.read.shared.tensorflow.device_spec import canonical_name
from stepwhy.read.shared.tensorflow.graphs import Edge, dependences, edges_of, nodes_of
from stepwhy.read.shared.tensorflow.labels import edge_node
from stepwhy.read.shared.tensorflow.ops import normalise_op
from stepwhy.read.shared.tensorflow.sidecars import OpSource, decide, is_function
from stepwhy.trace import NULL, Dependence

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from stepwhy.read.shared.tensorflow.graphs import Node
    from stepwhy.read.shared.tensorflow.labels import Transfer
    from stepwhy.read.shared.tensorflow.sidecars import Scope
    from stepwhy.trace import TraceBuilder


# Damaged entries can add up beyond int64.
_LARGEST = (1 << 63) - 1


class Moved(msgspec.Struct):
    """Total time and size of the transfers of one tensor in one run of the graph."""

    dur_ns: int = 0
    bytes: int = NULL
    transfer: Transfer | None = None

    def add(self, dur_ns: int, size: int) -> None:
        """Add one transfer; a tensor inside a loop travels more than once."""
        self.dur_ns = min(self.dur_ns + dur_ns, _LARGEST)
        if size != NULL:
            self.bytes = min(size + max(self.bytes, 0), _LARGEST)


class Observed(msgspec.Struct):
    """Placement and tensor sizes from step statistics.

    Args:
        ran: Device and op type by node.
        sizes: Bytes by node and output number.
        moved: Transfers by the tensor's name in the rendezvous.
        measured: Node and output number of the outputs whose sizes are needed.
    """

    ran: dict[str, tuple[str, str]] = msgspec.field(default_factory=dict)
    sizes: dict[tuple[str, int], int] = msgspec.field(default_factory=dict)
    moved: dict[str, Moved] = msgspec.field(default_factory=dict)
    measured: frozenset[tuple[str, int]] = frozenset()


class Requested(msgspec.Struct, frozen=True):
    """Placement that the program requested.

    Args:
        graph: The program's own graph by node name; empty when it was not recorded.
        sources: Source and device scopes by op name; empty when not recorded.
    """

    graph: dict[str, Node]
    sources: dict[str, OpSource]


class Place(NamedTuple):
    """Where the runtime put a node.

    Args:
        op: Op type as written.
        device: Canonical device; '' if it has none.
    """

    op: str
    device: str


class Placed(msgspec.Struct, frozen=True):
    """Placement by the runtime, from partition graphs.

    Args:
        nodes: The nodes by their names; empty if no graph was recorded.
        edges: Tensors that cross devices.
        consumers: The first node that reads the tensor of each receiving node.
    """

    nodes: dict[str, Place] = msgspec.field(default_factory=dict)
    edges: list[Edge] = msgspec.field(default_factory=list)
    consumers: dict[str, str] = msgspec.field(default_factory=dict)


def read_placed(graphs: Iterable[Any]) -> Placed:
    """Read partition graphs (GraphDef messages); they are iterated more than once."""
    edges = edges_of(graphs)
    receivers = {edge.receiver for edge in edges}
    places: dict[Place, Place] = {}
    nodes: dict[str, Place] = {}
    reads: dict[str, list[str]] = {}
    for node in nodes_of(graphs):
        place = Place(node.op, node.device)
        nodes[node.name] = places.setdefault(place, place)
        reads.pop(node.name, None)  # of two nodes with one name, the last counts
        received = [name for name in node.inputs if name in receivers]
        if received:
            reads[node.name] = received
    return Placed(nodes, edges, _consumers(nodes, reads))


def _consumers(nodes: Iterable[str], reads: dict[str, list[str]]) -> dict[str, str]:
    """The first node that reads each node's output."""
    first: dict[str, str] = {}
    for name in nodes:
        for producer in reads.get(name, ()):
            first.setdefault(producer, name)
    return first


def add_placement(
    builder: TraceBuilder, placed: Placed, requested: Requested, observed: Observed
) -> bool:
    """Fill the tables `nodes` and `copies`.

    Nodes are joined by exact names: the graph optimizer renames nodes that it rewrites, and a
    renamed node has no request of the program.

    Args:
        builder: Receives the rows.
        placed: Placement from partition graphs.
        requested: Placement that the program requested.
        observed: Placement from step statistics.

    Returns:
        Whether any node's device is known.
    """
    table = _Nodes(builder, placed.nodes, requested, observed)
    for name in (*requested.graph, *requested.sources, *placed.nodes):
        table.row(name)
    if not placed.nodes:
        for name in observed.ran:
            table.row(name)
    edges = placed.edges if placed.nodes else _edges_observed(observed)
    _add_copies(table, edges, placed.consumers, observed)
    return bool(placed.nodes or observed.ran)


def _answers(
    sources: Mapping[str, OpSource], dependences: Mapping[str, Dependence]
) -> dict[str, dict[Scope, str]]:
    """What each device function chooses for the model's work, by outermost name scope.

    It is known from the ops directly inside its scope, where it chooses the same for all of them.
    """
    chosen: dict[str, dict[Scope, set[str]]] = {}
    for name, source in sources.items():
        inner = source.scopes[-1] if source.scopes else None
        if inner and is_function(inner) and dependences.get(name) is Dependence.BOTH:
            of_scope = chosen.setdefault(name.partition("/")[0], {})
            of_scope.setdefault(inner, set()).add(source.requested or "")
    return {
        outermost: {scope: devices.pop() for scope, devices in found.items() if len(devices) == 1}
        for outermost, found in chosen.items()
    }


class _Nodes:
    """Rows of the table `nodes`, added at first mention of a name."""

    def __init__(
        self,
        builder: TraceBuilder,
        placed: dict[str, Place],
        requested: Requested,
        observed: Observed,
    ) -> None:
        self.builder = builder
        self._placed = placed
        self._requested = requested
        self._observed = observed
        self._rows: dict[str, int] = {}
        self._dependences = dependences(requested.graph)
        self._constant = constant_nodes(requested.graph)
        self._answers = _answers(requested.sources, self._dependences)

    def row(self, name: str) -> int:
        """The row of a node."""
        if name not in self._rows:
            self._rows[name] = self._add(name)
        return self._rows[name]

    def known(self, name: str) -> int:
        """The row of a node that is in the table, NULL for any other name."""
        return self._rows.get(name, NULL)

    def _add(self, name: str) -> int:
        asked = self._requested.graph.get(name)
        placed = self._placed.get(name)
        source = self._requested.sources.get(name, OpSource())
        answers = self._answers.get(name.partition("/")[0])
        decision = decide(source.scopes, source.requested or "", answers)
        ran_on, ran_op = self._observed.ran.get(name, ("", ""))
        op = asked.op if asked else normalise_op(placed.op if placed else ran_op)
        return self.builder.add(
            "nodes",
            name=self.builder.intern(name),
            op=self.builder.intern(op),
            requested=self._requested_device(asked, source),
            actual=self._string((placed.device if placed else "") or ran_on),
            outer=self._string(decision.outer),
            scope_line=self._string(decision.line),
            source=self._string(source.source or ""),
            colocated_with=self._string(asked.colocated if asked else ""),
            depends_on=self._dependences.get(name, Dependence.UNKNOWN),
            constant=name in self._constant if asked else NULL,
        )

    def _requested_device(self, asked: Node | None, source: OpSource) -> int:
        """The requested device; '' if the program requested none, NULL if unknown."""
        if asked is not None:
            return self.builder.intern(asked.device)
        if source.requested is not None:
            return self.builder.intern(canonical_name(source.requested))
        return NULL

    def _string(self, value: str) -> int:
        return self.builder.intern(value) if value else NULL


def _edges_observed(observed: Observed) -> list[Edge]:
    """Copies between processes from their transfers, if there are no partition graphs."""
    return [
        Edge(
            tensor,
            edge_node(tensor),
            NULL,
            "",
            "",
            canonical_name(moved.transfer.sender),
            canonical_name(moved.transfer.receiver),
            NULL,
        )
        for tensor, moved in observed.moved.items()
        if moved.transfer is not None
    ]


def _add_copies(
    table: _Nodes, edges: Sequence[Edge], consumers: dict[str, str], observed: Observed
) -> None:
    builder = table.builder
    for edge in edges:
        moved = observed.moved.get(edge.tensor)
        measured = moved.bytes if moved is not None else NULL
        sent = observed.sizes.get((edge.source, edge.slot), edge.bytes)
        # The consumer that the sender names, or else the first reader of the receiving node.
        named = table.known(edge.consumer)
        target = table.known(consumers.get(edge.receiver, "")) if named == NULL else named
        builder.add(
            "copies",
            source=table.row(edge.source),
            target=target,
            from_device=builder.intern(edge.from_device),
            to_device=builder.intern(edge.to_device),
            bytes=sent if measured == NULL else measured,
            dur_ns=moved.dur_ns if moved is not None else NULL,
        )
