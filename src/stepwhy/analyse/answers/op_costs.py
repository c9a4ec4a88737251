"""Cost of every operation, with its name scope and its line of the program.

A kernel belongs to the operation that launched it. If its launch was not recorded, or if the
runtime names it after its graph node, the kernel is an operation of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from stepwhy.analyse.lines.op_paths import Paths
from stepwhy.analyse.program.reads import reads_of
from stepwhy.base.columns.groups import group_rows, numbered
from stepwhy.base.columns.nesting import inherit, nearest
from stepwhy.base.columns.sums import sums_of
from stepwhy.trace import NULL, Kind, Role, among

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from stepwhy.analyse.facts import Facts
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
"""Quantities that are summed for each operation."""
_FIRST_BYTES = MEASURES.index("output_bytes")
BOOKKEEPING = frozenset({"_SOURCE", "_SINK"})
"""Nodes that TensorFlow adds on every device; they are not part of the program."""
MOST_OPERATIONS = 1 << 16
"""Most operations that are listed; each takes about 0.1 milliseconds in a view."""
OTHERS = "(other operations)"
"""Name of the entry for all operations that are not listed."""
_TIMES = [MEASURES.index(name) for name in ("host_ns", "device_ns")]


class OpCost(msgspec.Struct, frozen=True):
    """One operation of the program: all runs with the same name, name scope and line.

    Args:
        op: Op type, or name of the operation or kernel.
        node: Path of name scopes that ends with the operation's own name; for graphs, the node.
        line: Line of the program, 'file(line): function'; '' if unknown.
        sums: `MEASURES` over the steady steps; NULL for a measure that was not recorded.
    """

    op: str
    node: str
    line: str
    sums: NDArray[np.int64]


class Costs(msgspec.Struct):
    """The operations of a trace.

    Args:
        ops: The operations.
        reads: Nodes that each node read from, in the order of its inputs; empty if not recorded.
        scoped: Whether name scopes are recorded.
        lined: Whether lines of the program are recorded.
        others: Number of operations that are combined under `OTHERS`.
    """

    ops: list[OpCost]
    reads: dict[str, list[str]] = msgspec.field(default_factory=dict)
    scoped: bool = False
    lined: bool = False
    others: int = 0


def add_up(parts: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Add sums of `MEASURES`. Unrecorded values are skipped; NULL if all are unrecorded."""
    table = np.asarray(parts, dtype=np.int64).reshape(-1, len(MEASURES))
    known = table != NULL
    total: NDArray[np.int64] = np.where(known, table, 0).sum(axis=0)
    missing = ~known.any(axis=0)
    missing[:_FIRST_BYTES] = False
    total[missing] = NULL
    return total


def op_costs(facts: Facts) -> Costs:
    """The operations in the steady steps of a trace, as the program names them.

    Beyond `MOST_OPERATIONS`, those that took the least time are combined into one.
    """
    trace = facts.trace
    places = _Places(facts)
    rows = facts.in_steady(_rows(trace))
    values = _measures(facts, rows)
    owners = places.owners(rows)
    values[_is_counted_on_host(trace, rows) | (owners != rows), 0] = 0
    codes = places.codes(owners)
    first, group = group_rows(codes)
    sums = _sums(values, group, len(first))
    kept, others = _longest(sums)
    ops: dict[_Place, NDArray[np.int64]] = {}
    for place, value in zip(places.places(owners[first[kept]]), sums[kept], strict=True):
        ops[place] = add_up([ops[place], value]) if place in ops else value
    if len(others):
        ops[_Place(OTHERS, OTHERS, "")] = add_up(list(sums[others]))
    found = [OpCost(*place, value) for place, value in ops.items()]
    is_lined = any(op.line for op in found)
    return Costs(found, reads_of(facts), places.scoped, is_lined, len(others))


def costliest(costs: Costs, most: int) -> Costs:
    """The operations that took the most time; the others are combined into one.

    Args:
        costs: The operations.
        most: Number of operations to keep.
    """
    if len(costs.ops) <= most:
        return costs
    order = sorted(costs.ops, key=lambda op: -int(op.sums[_TIMES].sum()))
    others = OpCost(OTHERS, OTHERS, "", add_up([op.sums for op in order[most:]]))
    return replace(costs, ops=[*order[:most], others], others=costs.others + len(order) - most)


def _sums(
    values: NDArray[np.int64], group: NDArray[np.signedinteger[Any]], groups: int
) -> NDArray[np.int64]:
    """Like `add_up`, for each group; (groups, measures)."""
    sums = np.empty((groups, len(MEASURES)), dtype=np.int64)
    for measure, column in enumerate(values.T):
        known = np.flatnonzero(column != NULL)
        sums[:, measure] = sums_of(column[known], group[known], groups)
        if measure >= _FIRST_BYTES:
            sums[np.bincount(group[known], minlength=groups) == 0, measure] = NULL
    return sums


def _longest(sums: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The groups to list, and the others, which took the least time."""
    rows = np.arange(len(sums))
    if len(sums) <= MOST_OPERATIONS:
        return rows, rows[:0]
    time_ns = sums[:, _TIMES].sum(axis=1)
    is_kept = np.zeros(len(sums), dtype=bool)
    is_kept[np.argsort(-time_ns, kind="stable")[:MOST_OPERATIONS]] = True
    return rows[is_kept], rows[~is_kept]


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
    named = ~np.isin(slices.scope, trace.strings_where(BOOKKEEPING))
    return np.flatnonzero((on_stream | on_host | (role == Role.EXECUTOR)) & named)


def own_times(facts: Facts, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Time of each slice that no slice inside it covers, ns, as recorded if it was; (rows,)."""
    executions = facts.trace.executions
    recorded = np.full(len(facts.trace.slices), NULL, dtype=np.int64)
    recorded[executions.slice] = executions.op_ns
    own_ns = facts.nesting.self_ns(rows)
    return np.where(recorded[rows] == NULL, own_ns, recorded[rows])


def _measures(facts: Facts, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """`MEASURES` of every row; (rows, measures)."""
    trace, executions = facts.trace, facts.trace.executions
    extra = np.full((len(trace.slices), 3), NULL, dtype=np.int64)
    names = ("requested_bytes", "peak_bytes", "residual_bytes")
    extra[executions.slice] = np.stack([getattr(executions, n) for n in names], axis=1)
    own_ns = own_times(facts, rows)
    on_host = trace.tracks.role[trace.slices.track[rows]] == Role.HOST_THREAD
    # For these, `bytes` are moved, not produced.
    is_moved = among(trace.slices.kind[rows], (Kind.MEMCPY, Kind.COLLECTIVE))
    return np.stack(
        [
            np.ones(len(rows), dtype=np.int64),
            np.where(on_host, own_ns, 0),
            np.where(on_host, 0, own_ns),
            np.where(is_moved, NULL, trace.slices.bytes[rows]),
            *extra[rows].T,
        ],
        axis=1,
    )


def _is_counted_on_host(trace: Trace, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Mask of kernels whose node also has a slice on the host, which counts the run; (rows,)."""
    role, scope = trace.tracks.role[trace.slices.track[rows]], trace.slices.scope[rows]
    scheduled = np.unique(scope[role == Role.HOST_THREAD])
    known = scheduled[scheduled != NULL]
    counted: NDArray[np.bool_] = np.isin(scope, known) & (role == Role.STREAM)
    return counted


class _Place(NamedTuple):
    """Location of an operation in the program; for the fields see `OpCost`."""

    op: str
    node: str
    line: str


class _Places:
    """Finds the operation that a slice belongs to, and its location in the program."""

    def __init__(self, facts: Facts) -> None:
        self._trace = trace = facts.trace
        self._owner = np.arange(len(trace.slices), dtype=np.int64)
        launches = facts.launches
        is_op = np.where(trace.slices.kind == Kind.OP, self._owner, NULL)
        called = inherit(facts.nesting.parent, is_op, null=NULL)
        known = launches.call_row != NULL
        called = called[launches.call_row[known]]
        rows = launches.device_rows[known]
        self._owner[rows] = np.where(called == NULL, rows, called)
        self._line_of_node = {
            int(name): int(source)
            for name, source in zip(trace.nodes.name, trace.nodes.source, strict=True)
            if source != NULL
        }
        self._paths = Paths(trace, facts.nesting)
        has_line = (trace.slices.source != NULL) & trace.is_kind(Kind.OP, Kind.PYTHON)
        self._lined = nearest(facts.nesting, has_line)
        self._has_scope = bool((trace.slices.scope != NULL).any())

    @property
    def scoped(self) -> bool:
        """Whether name scopes are recorded."""
        return self._has_scope or self._paths.found

    def owners(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The operation that each slice belongs to, or the slice itself; (rows,)."""
        owners: NDArray[np.int64] = self._owner[rows]
        return owners

    def codes(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Codes of the locations of operations, equal for equal locations; (rows,)."""
        slices = self._trace.slices
        scope = slices.scope[rows].astype(np.int64)
        in_path = np.flatnonzero(scope == NULL)
        around = np.zeros(len(rows), dtype=np.int64)
        around[in_path] = self._paths.around(rows[in_path])
        lines = slices.source[rows].astype(np.int64)
        lines[in_path] = self._lines(rows[in_path])
        codes: NDArray[np.int64] = slices.name[rows].astype(np.int64)
        for column in (scope, around, lines):
            # Codes of pairs, equal for equal pairs.
            (some, one), (others, other) = numbered(codes), numbered(column)
            pairs = one.astype(np.int64)
            codes = pairs if len(some) == 0 else pairs * len(others) + other
        return codes

    def _lines(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Line of each operation, or of the nearest call around it that has one; (rows,)."""
        lined = self._lined[rows]
        return np.where(lined == NULL, NULL, self._trace.slices.source[lined])

    def places(self, rows: NDArray[np.int64]) -> Iterator[_Place]:
        """The locations of operations."""
        slices, string = self._trace.slices, self._trace.string
        columns = (slices.name[rows], slices.scope[rows], slices.source[rows])
        around, lines = self._paths.around(rows), self._lines(rows)
        for name, scope, source, path, line in zip(
            *(column.tolist() for column in (*columns, around, lines)), strict=True
        ):
            op = string(name)
            if scope != NULL:
                line_of_node = self._line_of_node.get(scope, source)
                yield _Place(op, string(scope), string(line_of_node))
            else:
                text = self._paths.text(path)
                yield _Place(op, f"{text}/{op}" if text else op, string(line))
