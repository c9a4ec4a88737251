"""What every operation costs, with the name scope and the line of the program it belongs to.

A kernel belongs to the operation that launched it; one whose launch was not recorded, or that the
runtime names after its graph node, stands for itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.passes.call_tree import NO_PARENT
from stepwhy.passes.grouping import by_code
from stepwhy.passes.launches import NO_CALL
from stepwhy.passes.nesting import inherit
from stepwhy.trace import NULL, FlowKind, Kind, Role, among

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from stepwhy.passes.facts import Facts
    from stepwhy.trace import Trace

MEASURES = (
    "count",
    "host_ns",
    "device_ns",
    "output_bytes",
    "requested_bytes",
    "peak_bytes",
    "residual_bytes",
)
"""Columns of a sum."""
_FIRST_BYTES = MEASURES.index("output_bytes")
# Present on every device, part of no program.
_BOOKKEEPING = frozenset({"_SOURCE", "_SINK"})
_MODULE = "nn.Module: "
# Flows that are looked at at a time.
_PIECE = 1 << 16


class OpCost(msgspec.Struct, frozen=True):
    """One operation of the program: runs of the same name at the same place.

    Args:
        op: Op type, or name of the operation or kernel.
        node: Path of name scopes, the operation's own name last; of a graph the node.
        line: Line of the program, 'file(line): function'; '' where it is not known.
        sums: `MEASURES` over the steady steps, NULL in those of which none is recorded.
    """

    op: str
    node: str
    line: str
    sums: NDArray[np.int64]


class Costs(msgspec.Struct):
    """The operations of a trace.

    Args:
        ops: Operations.
        reads: Nodes that each node read from, in the order of its inputs; empty where the trace
            does not tell.
        scoped: Whether name scopes are recorded.
        lined: Whether lines of the program are.
    """

    ops: list[OpCost]
    reads: dict[str, list[str]] = msgspec.field(default_factory=dict)
    scoped: bool = False
    lined: bool = False


def add_up(parts: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """The sum of sums: what is recorded of some is that of those; NULL where of none."""
    table = np.asarray(parts, dtype=np.int64).reshape(-1, len(MEASURES))
    known = table != NULL
    total: NDArray[np.int64] = np.where(known, table, 0).sum(axis=0)
    missing = ~known.any(axis=0)
    missing[:_FIRST_BYTES] = False
    total[missing] = NULL
    return total


def op_costs(facts: Facts) -> Costs:
    """The operations in the steady steps of a trace, as the program names them."""
    trace = facts.trace
    places = _Places(facts)
    rows = facts.in_steady(_rows(trace))
    values = _measures(facts, rows)
    groups: dict[tuple[str, str, str], list[NDArray[np.int64]]] = {}
    repeats = _is_further(trace, rows)
    for row, value, is_further in zip(rows.tolist(), values, repeats.tolist(), strict=True):
        owner = places.owner(row)
        if is_further or owner != row:
            value[0] = 0
        groups.setdefault(places.place(owner), []).append(value)
    ops = [OpCost(op, node, line, add_up(p)) for (op, node, line), p in groups.items()]
    return Costs(ops, reads_of(facts), places.scoped, any(op.line for op in ops))


def _rows(trace: Trace) -> NDArray[np.int64]:
    """Slices that are operations or their work on a device."""
    slices = trace.slices
    if not len(slices):
        return np.empty(0, dtype=np.int64)
    role = trace.tracks.role[slices.track]
    device_kinds = (Kind.KERNEL, Kind.COLLECTIVE, Kind.MEMCPY, Kind.MEMSET)
    on_stream = (role == Role.STREAM) & trace.is_kind(*device_kinds)
    is_host_op = (slices.kind == Kind.OP) | (slices.scope != NULL)
    on_host = (role == Role.HOST_THREAD) & is_host_op
    named = ~np.isin(slices.scope, trace.strings_where(_BOOKKEEPING))
    return np.flatnonzero((on_stream | on_host | (role == Role.EXECUTOR)) & named)


def _measures(facts: Facts, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """`MEASURES` of every row; (rows, measures)."""
    trace, executions = facts.trace, facts.trace.executions
    count = len(trace.slices)
    extra = np.full((count, 4), NULL, dtype=np.int64)
    names = ("op_ns", "requested_bytes", "peak_bytes", "residual_bytes")
    extra[executions.slice] = np.stack([getattr(executions, n) for n in names], axis=1)
    own_ns = facts.nesting.self_ns[rows]
    own_ns = np.where(extra[rows, 0] == NULL, own_ns, extra[rows, 0])
    on_host = trace.tracks.role[trace.slices.track[rows]] == Role.HOST_THREAD
    # Of these it is bytes moved, not made.
    is_moved = among(trace.slices.kind[rows], (Kind.MEMCPY, Kind.COLLECTIVE))
    return np.stack(
        [
            np.ones(len(rows), dtype=np.int64),
            np.where(on_host, own_ns, 0),
            np.where(on_host, 0, own_ns),
            np.where(is_moved, NULL, trace.slices.bytes[rows]),
            *extra[rows, 1:].T,
        ],
        axis=1,
    )


def _is_further(trace: Trace, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Kernels of nodes whose scheduling was recorded, which are no further runs; (rows,)."""
    role, scope = trace.tracks.role[trace.slices.track[rows]], trace.slices.scope[rows]
    scheduled = np.unique(scope[role == Role.HOST_THREAD])
    known = scheduled[scheduled != NULL]
    further: NDArray[np.bool_] = np.isin(scope, known) & (role == Role.STREAM)
    return further


def reads_of(facts: Facts) -> dict[str, list[str]]:
    """Nodes that each node read from, in the order of its inputs; empty where that is not told.

    Args:
        facts: Facts of the run.
    """
    trace, flows = facts.trace, facts.trace.flows
    reads: dict[str, dict[str, None]] = {}
    scope = trace.slices.scope
    for first in range(0, len(flows), _PIECE):
        some = slice(first, first + _PIECE)
        is_data = flows.kind[some] == FlowKind.DATA
        sources, targets = (scope[rows[some][is_data]] for rows in (flows.source, flows.target))
        for source, target in _distinct_pairs(sources, targets):
            if NULL not in {source, target}:
                reads.setdefault(trace.string(target), {})[trace.string(source)] = None
    return {node: list(inputs) for node, inputs in reads.items()}


def _distinct_pairs(
    first: NDArray[np.int32], second: NDArray[np.int32]
) -> Iterator[tuple[int, int]]:
    """Different pairs of strings, in the order of their first sight: every step repeats them."""
    codes = (first.astype(np.int64) << 32) + second
    order, begins = by_code(codes)
    places = np.sort(order[begins])
    yield from zip(first[places].tolist(), second[places].tolist(), strict=True)


class _Places:
    """Which operation a slice belongs to, and where that one stands in the program."""

    def __init__(self, facts: Facts) -> None:
        self._trace = trace = facts.trace
        self._parent = facts.nesting.parent
        self._owner = np.arange(len(trace.slices), dtype=np.int64)
        launches = facts.launches
        is_op = np.where(trace.slices.kind == Kind.OP, self._owner, NO_PARENT)
        nearest = inherit(facts.nesting, is_op, null=NO_PARENT)
        known = launches.call_row != NO_CALL
        called = nearest[launches.call_row[known]]
        rows = launches.device_rows[known]
        self._owner[rows] = np.where(called == NO_PARENT, rows, called)
        self._line_of_node = {
            int(name): int(source)
            for name, source in zip(trace.nodes.name, trace.nodes.source, strict=True)
            if source != NULL
        }
        self._paths: dict[int, str] = {NO_PARENT: ""}
        self.scoped = bool((trace.slices.scope != NULL).any())

    def owner(self, row: int) -> int:
        """The operation that a slice belongs to; itself where it is one."""
        return int(self._owner[row])

    def place(self, row: int) -> tuple[str, str, str]:
        """Op, node and line of an operation."""
        trace, slices = self._trace, self._trace.slices
        op = trace.string(int(slices.name[row]))
        scope = int(slices.scope[row])
        if scope != NULL:
            line = self._line_of_node.get(scope, int(slices.source[row]))
            return op, trace.string(scope), trace.string(line)
        path = self._path(int(self._parent[row]))
        return op, f"{path}/{op}" if path else op, self._line(row)

    def _path(self, row: int) -> str:
        """Ranges and modules around a place, outermost first."""
        climbed = []
        while row not in self._paths:
            climbed.append(row)
            row = int(self._parent[row])
        path = self._paths[row]
        for inner in reversed(climbed):
            name = self._range(inner)
            if name:
                path = f"{path}/{name}" if path else name
                self.scoped = True
            self._paths[inner] = path
        return path

    def _range(self, row: int) -> str:
        name = self._trace.string(int(self._trace.slices.name[row]))
        if self._trace.slices.kind[row] == Kind.ANNOTATION:
            return name.replace("/", "|")
        return name.removeprefix(_MODULE) if name.startswith(_MODULE) else ""

    def _line(self, row: int) -> str:
        """Its own call site, or else the innermost function of the program around it."""
        slices = self._trace.slices
        while row != NO_PARENT:
            if slices.source[row] != NULL and slices.kind[row] in {Kind.OP, Kind.PYTHON}:
                return self._trace.string(int(slices.source[row]))
            row = int(self._parent[row])
        return ""


__all__ = ["MEASURES", "Costs", "OpCost", "add_up", "op_costs", "reads_of"]
