"""A view of the operations of a run, as means per step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.analyse.answers.call_tree import COUNT, DEVICE, HOST, call_tree
from stepwhy.analyse.answers.op_costs import MEASURES, OTHERS, add_up, costliest, op_costs
from stepwhy.analyse.answers.op_views import Row, view, why_not
from stepwhy.analyse.answers.tree_rows import means, tree_rows
from stepwhy.analyse.facts import Facts
from stepwhy.analyse.lines.by_line import line_breakdown
from stepwhy.result.profile import Cost, ProfileNode, ProfileResult
from stepwhy.result.reasons import NoView
from stepwhy.result.wording.notes import NO_VIEWS, operations_added_up, tree_notes
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from stepwhy.analyse.answers.op_costs import Costs
    from stepwhy.result.profile import View
    from stepwhy.trace import Trace

_OUTPUT, _REQUESTED = range(3, 5)
# A node of a view takes 0.1 ms, and a page lists only the first few hundred.
_MOST_OF_PAGE = 2000
_MOST_OF_TREE = 1 << 14
_OF_OPERATIONS: tuple[View, ...] = ("scope", "graph", "op", "code")

ORDERS: dict[str, Callable[[NDArray[np.int64]], int]] = {
    "time": lambda sums: int(sums[HOST] + sums[DEVICE]),
    "bytes": lambda sums: int(max(sums[_REQUESTED], sums[_OUTPUT])),
    "count": lambda sums: int(sums[COUNT]),
}
"""Sort keys of a view, by name."""


def profile(trace: Trace, path: str, kind: View, order: str = "time") -> ProfileResult:
    """One view of the operations in the steady steps of a trace.

    Args:
        trace: The trace.
        path: Its file or folder.
        kind: The view.
        order: Key of `ORDERS`.
    """
    facts = Facts(trace)
    if kind == "line":
        return _line_breakdown(facts, path)
    if kind == "tree":
        return _tree(facts, path, _MOST_OF_TREE)
    return _profile(facts, op_costs(facts), path, kind, order)


def profiles(facts: Facts, path: str) -> tuple[ProfileResult, ...]:
    """The views that a trace can show, of its costliest operations; the others are combined.

    Args:
        facts: Facts of the trace.
        path: Its file or folder.
    """
    costs = costliest(op_costs(facts), _MOST_OF_PAGE)
    shown = (kind for kind in _OF_OPERATIONS if why_not(costs, kind) is None)
    views = [_profile(facts, costs, path, kind, "time") for kind in shown]
    return (*views, _tree(facts, path, _MOST_OF_PAGE))


def _profile(facts: Facts, costs: Costs, path: str, kind: View, order: str) -> ProfileResult:
    reason = why_not(costs, kind)
    steps = max(facts.steady_count, 1)
    rows = [] if reason else view(costs, kind, ORDERS[order])
    total = _cost(add_up([op.sums for op in costs.ops]), steps)
    nodes = tuple(_node(row, steps) for row in rows)
    notes = facts.trace.meta.notes
    if costs.others:
        notes = (*notes, operations_added_up(len(costs.ops) - 1, costs.others, OTHERS))
    return ProfileResult(path, kind, steps, total, nodes, NO_VIEWS[reason] if reason else "", notes)


def _line_breakdown(facts: Facts, path: str) -> ProfileResult:
    """The step by line of the program, which is more than the operations."""
    lines = facts.derived(line_breakdown)
    reason = NO_VIEWS[NoView.NO_LINES] if lines is None else ""
    total = _cost(add_up([op.sums for op in op_costs(facts).ops]), max(facts.steady_count, 1))
    notes = facts.trace.meta.notes
    steps = max(facts.steady_count, 1)
    return ProfileResult(path, "line", steps, total, (), reason, notes, lines)


def _tree(facts: Facts, path: str, most: int) -> ProfileResult:
    """The steady steps by line, module, operation and kernel.

    Args:
        facts: Facts of the trace.
        path: Its file or folder.
        most: Number of nodes.
    """
    steps = max(facts.steady_count, 1)
    rows = tree_rows(facts.derived(call_tree), most)
    nodes = tuple(
        ProfileNode(
            row.node.name,
            None if row.node.parent == NULL else row.node.parent,
            row.depth,
            _tree_cost(row.own, own, steps),
            _tree_cost(row.own, total, steps),
            row.node.kind,
            row.node.category,
        )
        for row, (own, total) in zip(rows, means(rows, steps), strict=True)
    )
    top = [node.total for node in nodes if node.parent is None]
    total = Cost(0.0, sum(cost.host_ns for cost in top), sum(cost.device_ns for cost in top))
    reason = "" if nodes else NO_VIEWS[NoView.NO_OPERATIONS]
    notes = (*facts.trace.meta.notes, *tree_notes(nodes, total))
    return ProfileResult(path, "tree", steps, total, nodes, reason, notes)


def _tree_cost(sums: NDArray[np.int64], means: NDArray[np.int64], steps: int) -> Cost:
    """A cost whose number of runs is that of the node alone."""
    count = round(int(sums[COUNT]) / steps, 2)
    return Cost(count, int(means[HOST]), int(means[DEVICE]))


def _node(row: Row, steps: int) -> ProfileNode:
    own, total = _cost(row.own, steps), _cost(row.total, steps)
    return ProfileNode(row.name, row.parent, row.depth, own, total)


def _cost(sums: NDArray[np.int64], steps: int) -> Cost:
    count, *others = sums.tolist()
    means = (None if value == NULL else round(value / steps) for value in others)
    return Cost(round(count / steps, 2), **dict(zip(MEASURES[1:], means, strict=True)))  # type: ignore[arg-type]
