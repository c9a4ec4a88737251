"""The placement tables: what each node asked for, where it ran, and the copies that follow."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stepwhy.importers.tensorflow.device_spec import canonical_name
from stepwhy.importers.tensorflow.graphs import Edge, edges_of, nodes_of
from stepwhy.importers.tensorflow.labels import edge_node
from stepwhy.importers.tensorflow.ops import normalise_op
from stepwhy.importers.tensorflow.sidecars import OpSource, decide
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from stepwhy.importers.tensorflow.graphs import Node
    from stepwhy.importers.tensorflow.labels import Transfer
    from stepwhy.trace import TraceBuilder


# Damaged entries can add up beyond int64.
_LARGEST = (1 << 63) - 1


@dataclass(slots=True)
class Moved:
    """What the transfers of one tensor came to during one run of the graph."""

    dur_ns: int = 0
    bytes: int = NULL
    transfer: Transfer | None = None

    def add(self, dur_ns: int, size: int) -> None:
        """Add one transfer; a tensor inside a loop travels more than once."""
        self.dur_ns = min(self.dur_ns + dur_ns, _LARGEST)
        if size != NULL:
            self.bytes = min(size + max(self.bytes, 0), _LARGEST)


@dataclass(slots=True)
class Observed:
    """What step statistics tell about placement.

    Args:
        ran: Device and op type by node.
        sizes: Bytes by node and output number.
        moved: Transfers by the tensor's name in the rendezvous.
    """

    ran: dict[str, tuple[str, str]] = field(default_factory=dict)
    sizes: dict[tuple[str, int], int] = field(default_factory=dict)
    moved: dict[str, Moved] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Requested:
    """What the program asked for.

    Args:
        graph: The program's own graph by node name; empty when it was not recorded.
        sources: Source and device scopes by op name; empty when not recorded.
    """

    graph: dict[str, Node]
    sources: dict[str, OpSource]


def add_placement(
    builder: TraceBuilder, graphs: Sequence[Any], requested: Requested, observed: Observed
) -> bool:
    """Fill the tables `nodes` and `copies`.

    Only exact names are joined: the graph optimizer renames what it rewrites, and a renamed node
    is a node of its own that nobody asked for.

    Args:
        builder: The trace to append to.
        graphs: Partition graphs (GraphDef messages), empty when none were recorded.
        requested: What the program asked for.
        observed: What step statistics tell.

    Returns:
        Whether any node's device is known.
    """
    placed = {n.name: n for n in nodes_of(graphs)}
    table = _Nodes(builder, placed, requested, observed)
    for name in (*requested.graph, *requested.sources, *placed):
        table.row(name)
    if not placed:
        for name in observed.ran:
            table.row(name)
    edges = edges_of(graphs) if placed else _edges_observed(observed)
    _add_copies(table, edges, _consumers(placed), observed)
    return bool(placed or observed.ran)


class _Nodes:
    """Rows of the table `nodes`, added at first mention of a name."""

    def __init__(
        self,
        builder: TraceBuilder,
        placed: dict[str, Node],
        requested: Requested,
        observed: Observed,
    ) -> None:
        self.builder = builder
        self._placed = placed
        self._requested = requested
        self._observed = observed
        self._rows: dict[str, int] = {}

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
        decision = decide(source.scopes)
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
            colocated=self._string(asked.colocated if asked else ""),
        )

    def _requested_device(self, asked: Node | None, source: OpSource) -> int:
        """'' when the program asked for no device, null when it is not known."""
        if asked is not None:
            return self.builder.intern(asked.device)
        if source.requested is not None:
            return self.builder.intern(canonical_name(source.requested))
        return NULL

    def _string(self, value: str) -> int:
        return self.builder.intern(value) if value else NULL


def _consumers(placed: dict[str, Node]) -> dict[str, str]:
    """The first node that reads each node's output."""
    first: dict[str, str] = {}
    for node in placed.values():
        for producer in node.inputs:
            first.setdefault(producer, node.name)
    return first


def _edges_observed(observed: Observed) -> list[Edge]:
    """Copies between processes as the transfers themselves tell, without partition graphs."""
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
        builder.add(
            "copies",
            source=table.row(edge.source),
            target=_target(table, edge, consumers),
            from_device=builder.intern(edge.from_device),
            to_device=builder.intern(edge.to_device),
            bytes=sent if measured == NULL else measured,
            dur_ns=moved.dur_ns if moved is not None else NULL,
        )


def _target(table: _Nodes, edge: Edge, consumers: dict[str, str]) -> int:
    """The program's own consumer where the sender knows it, else whatever reads the receive."""
    named = table.known(edge.consumer)
    return table.known(consumers.get(edge.receiver, "")) if named == NULL else named
