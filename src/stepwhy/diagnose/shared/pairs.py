"""Operations that combine two arrays, each of which is repeated for the other: all pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.trace import FlowKind

if TYPE_CHECKING:
    from stepwhy.analyse.facts import Facts
    from stepwhy.diagnose.shared.slices import Rows

# Source: elementwise operations of two tensors in tensorflow/core/ops/math_ops.cc.
_OF_TWO = frozenset(
    {
        "Add", "AddV2", "Sub", "Mul", "Div", "RealDiv", "SquaredDifference", "Maximum", "Minimum",
        "Pow", "Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual", "LogicalAnd",
    }
)  # fmt: skip
# Result by argument, in bytes: truth values of floats have a quarter of their size.
_LARGER = 4


def of_pairs(facts: Facts, rows: Rows) -> Rows:
    """Those of some slices that combine all pairs, in compiled programs and graphs; ascending.

    Args:
        facts: Facts of the run.
        rows: Slices, ascending.
    """
    table = facts.trace.argument_uses
    compiled = np.isin(rows, table.slice[table.compares_pairs == 1])
    names = facts.trace.slices.name[rows]
    elementwise = rows[np.isin(names, facts.trace.strings_where(_OF_TWO))]
    of_graph = [row for row in elementwise.tolist() if _is_larger(facts, row)]
    found: Rows = np.union1d(rows[compiled], np.array(of_graph, dtype=rows.dtype))
    return found


def _is_larger(facts: Facts, row: int) -> bool:
    """Whether the result of an operation is several times as large as each of two arguments."""
    slices, flows = facts.trace.slices, facts.trace.flows
    read = flows.source[(flows.target == row) & (flows.kind == FlowKind.DATA)]
    sizes = slices.bytes[read]
    if len(sizes) != 2 or not (sizes > 0).all():
        return False
    return bool((sizes * _LARGER <= slices.bytes[row]).all())


__all__ = ["of_pairs"]
