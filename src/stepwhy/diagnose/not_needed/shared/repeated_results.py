"""What a step of PyTorch computes again from the same values, as the semantic step shows."""

from __future__ import annotations

import msgspec
import numpy as np

from stepwhy.analyse.facts import Facts
from stepwhy.analyse.program.semantic_ops import matched_ops, work_ns
from stepwhy.base.columns.types import AnyRows
from stepwhy.diagnose.not_needed.shared.backward_time import cost_per_step_ns, launched_within
from stepwhy.diagnose.shared.backward_nodes import is_node
from stepwhy.diagnose.shared.measure import on_scale, time_of
from stepwhy.trace import NULL


class RepeatedResults(msgspec.Struct, frozen=True):
    """Operations of the steady steps that compute the results of earlier ones again.

    Args:
        rows: Slices of the operations, ascending; (rows,).
        cost_ns: Time of the mean step in them, and in their part of the backward pass.
        backward_ns: The latter alone.
    """

    rows: AnyRows
    cost_ns: int
    backward_ns: int


def repeated_results(facts: Facts) -> RepeatedResults | None:
    """What the steady steps compute again; None if that is not known.

    Constants, and results that nothing reads, are left out: `constant-computation` and
    `discarded-result` judge these.
    """
    ops = facts.trace.step_ops
    if not len(ops) or (ops.repeated == NULL).any():
        return None
    matched = matched_ops(facts)
    is_again = (matched.places != NULL) & (ops.repeated[matched.places] == 1)
    is_again &= (ops.constant[matched.places] != 1) & (ops.unread[matched.places] <= 0)
    rows = matched.rows[is_again]
    numbers = facts.trace.slices.sequence[rows]
    nodes = np.flatnonzero(is_node(facts) & facts.is_steady)
    is_theirs = np.isin(facts.trace.slices.sequence[nodes], numbers[numbers != NULL])
    host = time_of(facts, nodes[is_theirs])
    backward_ns = cost_per_step_ns(
        facts, host, launched_within(facts, host), max(facts.steady_count, 1)
    )
    forward_ns = facts.mean_ns(int(work_ns(facts, matched)[is_again].sum()))
    return RepeatedResults(rows, on_scale(facts, forward_ns) + backward_ns, backward_ns)
