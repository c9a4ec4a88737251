"""Copies of a whole buffer of which only a part is then changed, in compiled programs and graphs.

Those of PyTorch are found by `eager_rewrites`.
"""

from __future__ import annotations

import msgspec
import numpy as np

from stepwhy.analyse.facts import Facts
from stepwhy.base.columns.types import AnyRows
from stepwhy.diagnose.not_needed.shared.eager_rewrites import MOST_CHANGED, Rewrite, of_pytorch
from stepwhy.diagnose.shared.program import is_pytorch
from stepwhy.trace import FlowKind, Kind

# Source: `tensorflow/core/ops/state_ops.cc` and `array_ops.cc`: they return the whole tensor.
_UPDATES = frozenset(
    {
        "TensorScatterUpdate", "TensorScatterAdd", "TensorScatterSub", "TensorScatterMax",
        "TensorScatterMin", "TensorStridedSliceUpdate",
    }
)  # fmt: skip
_READS, _ASSIGNS = frozenset({"ReadVariableOp"}), frozenset({"Assign", "AssignVariableOp"})
_CONCAT, _SLICE = "ConcatV2", frozenset({"StridedSlice", "Slice"})


class Found(msgspec.Struct, frozen=True):
    """Copies in the steady steps, and whether the program could donate the buffers.

    Args:
        copies: The copies.
        of_argument: Whether the buffers are arguments of a compiled function; None in other
            programs.
    """

    copies: list[Rewrite]
    of_argument: bool | None = None


def find_rewrites(facts: Facts) -> Found | None:
    """The copies in the steady steps; None if what operations work on was not recorded."""
    if is_pytorch(facts):
        return Found(of_pytorch(facts)) if len(facts.trace.operands) else None
    if facts.trace.meta.framework == "jax" or len(facts.trace.rewrites):
        return _of_programs(facts) if knows_programs(facts) else None
    data = facts.trace.flows.kind == FlowKind.DATA
    return Found(_of_graph(facts, np.flatnonzero(data))) if data.any() else None


def knows_programs(facts: Facts) -> bool:
    """Whether the compiled programs that ran were recorded."""
    return "programs" in facts.trace.meta.signals


def _of_programs(facts: Facts) -> Found:
    """Those of compiled programs, as the importer read them."""
    table = facts.trace.rewrites
    steady = facts.is_steady[table.slice]
    partly = table.changed_bytes <= MOST_CHANGED * table.copied_bytes
    rows = np.flatnonzero(steady & partly)
    copies = [
        Rewrite(
            int(table.slice[row]),
            int(table.copied_bytes[row]),
            int(table.changed_bytes[row]),
            facts.trace.string(int(table.operation[row])),
            1,
        )
        for row in rows.tolist()
    ]
    own = facts.trace.slices.dur_ns[table.slice[rows]]
    of_argument = table.of_argument[rows] == 1
    return Found(copies, bool(own[of_argument].sum() >= own[~of_argument].sum()))


def _of_graph(facts: Facts, flows: AnyRows) -> list[Rewrite]:
    """Those of a graph, where the sizes of results and what flows where were recorded.

    Args:
        facts: Facts of the run.
        flows: Rows of the flows of data.
    """
    slices, table = facts.trace.slices, facts.trace.flows
    rows = facts.slices(Kind.KERNEL, Kind.OP, steady=True)
    named = np.isin(slices.name[rows], facts.trace.strings_where({*_UPDATES, _CONCAT}))
    rows = rows[named & (slices.bytes[rows] > 0)]
    found = []
    for row in rows.tolist():
        sources = table.source[flows[table.target[flows] == row]]
        name, size = facts.trace.string(int(slices.name[row])), int(slices.bytes[row])
        changed = _changed(facts, name, size, sources, flows)
        if changed is not None and 0 < changed <= MOST_CHANGED * size:
            targets = table.target[flows[table.source[flows] == row]]
            around = _around(facts, sources[slices.bytes[sources] == size], targets)
            found += [Rewrite(each, size, changed, name, 1) for each in (row, *around)]
    return found


def _around(facts: Facts, read: AnyRows, targets: AnyRows) -> list[int]:
    """The read of the whole variable before its changed copy, and the assignment of that.

    Both may copy as well: nothing else tells TensorFlow that the old values are not needed.
    """
    names = facts.trace.slices.name
    is_read = np.isin(names[read], facts.trace.strings_where(_READS))
    assigns = np.isin(names[targets], facts.trace.strings_where(_ASSIGNS))
    rows: list[int] = np.concatenate([read[is_read], targets[assigns]]).tolist()
    return rows


def _changed(facts: Facts, name: str, size: int, sources: AnyRows, flows: AnyRows) -> int | None:
    """Bytes that differ between the result of an operation and a buffer; None if unknown.

    Args:
        facts: Facts of the run.
        name: The operation.
        size: Bytes of its result.
        sources: What it reads.
        flows: Rows of the flows of data.
    """
    slices = facts.trace.slices
    sizes = slices.bytes[sources]
    if name != _CONCAT:
        smaller = sizes[(sizes > 0) & (sizes < size)]
        return int(smaller.max()) if len(smaller) and (sizes == size).any() else None
    is_slice = np.isin(slices.name[sources], facts.trace.strings_where(_SLICE))
    moved = [s for s in sources[is_slice].tolist() if size in _read_sizes(facts, s, flows)]
    return size - int(slices.bytes[moved].sum()) if moved else None


def _read_sizes(facts: Facts, row: int, flows: AnyRows) -> list[int]:
    table = facts.trace.flows
    sizes: list[int] = facts.trace.slices.bytes[
        table.source[flows[table.target[flows] == row]]
    ].tolist()
    return sizes


__all__ = ["Found", "Rewrite", "find_rewrites", "knows_programs"]
