"""The four views of TensorFlow's `tfprof` on the operations of any trace.

- *scope*: the tree of name scopes;
- *graph*: from operations whose output no other operation reads, along their inputs; an operation
  that several others read is listed below the first of them only, so nothing is counted twice;
- *op*: by op type;
- *code*: by file and line of the program.

Source: `tensorflow/core/profiler/g3doc` (views), `tfprof_graph.cc` (accumulation along inputs).
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import msgspec

from stepwhy.analyse.answers.op_costs import MEASURES, add_up
from stepwhy.base.patterns import regex
from stepwhy.result.reasons import NoView

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from stepwhy.analyse.answers.op_costs import Costs, OpCost

NO_LINE = "(line not known)"
# Most levels of name scopes; a name may contain a million slashes.
_DEEPEST = 1 << 8
_LINE = regex(r"(?P<file>.*?)\((?P<line>\d+)\)(: .*)?")


class Branch(msgspec.Struct):
    """A node of a view under construction.

    Args:
        name: Displayed name.
        parts: Sums of `MEASURES` of the operations at this node, without its children.
        children: Child nodes by key.
    """

    name: str
    parts: list[NDArray[np.int64]] = msgspec.field(default_factory=list)
    children: dict[str, Branch] = msgspec.field(default_factory=dict)

    def child(self, key: str, name: str) -> Branch:
        """The child with this key; it is added if there is none."""
        return self.children.setdefault(key, Branch(name))


class Row(msgspec.Struct, frozen=True):
    """A node of a finished view; `own` and `total` are sums of `MEASURES`."""

    name: str
    parent: int | None
    depth: int
    own: NDArray[np.int64]
    total: NDArray[np.int64]


def view(costs: Costs, kind: str, weight: Callable[[NDArray[np.int64]], int]) -> list[Row]:
    """One view, parents before children, heaviest children first.

    Args:
        costs: The operations.
        kind: 'scope', 'graph', 'op' or 'code'.
        weight: Sort key of children, computed from their total of `MEASURES`.
    """
    grow = {"scope": _scopes, "op": _types, "code": _lines}
    root = _graph(costs) if kind == "graph" else grow[kind](costs.ops)
    return _flatten(root, weight)


def why_not(costs: Costs, kind: str) -> NoView | None:
    """Why a trace cannot show a view; None if it can."""
    if not costs.ops:
        return NoView.NO_OPERATIONS
    if kind == "scope" and not costs.scoped:
        return NoView.NO_SCOPES
    if kind == "code" and not costs.lined:
        return NoView.NO_LINES
    if kind == "graph" and not costs.reads:
        return NoView.NO_READS
    return None


def _scopes(ops: Iterable[OpCost]) -> Branch:
    root = Branch("")
    for op in ops:
        branch, path = root, ""
        for name in op.node.split("/", _DEEPEST):
            path = f"{path}/{name}" if path else name
            branch = branch.child(name, path)
        branch.parts.append(op.sums)
    return root


def _types(ops: Iterable[OpCost]) -> Branch:
    root = Branch("")
    for op in ops:
        root.child(op.op, op.op).parts.append(op.sums)
    return root


def _lines(ops: Iterable[OpCost]) -> Branch:
    """Tree of files and their lines."""
    root = Branch("")
    for op in ops:
        match = _LINE.fullmatch(op.line)
        file = match["file"] if match else op.line or NO_LINE
        branch = root.child(file, file)
        if match:
            branch = branch.child(op.line, op.line)
        branch.parts.append(op.sums)
    return root


def _graph(costs: Costs) -> Branch:
    """Walk depth-first from operations that no other operation reads, each node once."""
    parts: dict[str, list[NDArray[np.int64]]] = defaultdict(list)
    for op in costs.ops:
        parts[op.node].append(op.sums)
    read = {node for inputs in costs.reads.values() for node in inputs}
    # Operations of a loop may all be read by each other, so every node is also a start.
    starts = [n for n in parts if n not in read] + list(parts)
    root, seen = Branch(""), set[str]()
    todo = [(root, node) for node in reversed(starts)]
    while todo:
        parent, node = todo.pop()
        if node in seen or node not in parts:
            continue
        seen.add(node)
        branch = parent.child(node, node)
        branch.parts = parts[node]
        todo += [(branch, source) for source in reversed(costs.reads.get(node, []))]
    return root


def _flatten(root: Branch, weight: Callable[[NDArray[np.int64]], int]) -> list[Row]:
    """Rows of a tree with their totals; without recursion, because graphs may be too deep."""
    order = [root]
    for branch in order:
        order.extend(branch.children.values())
    totals: dict[int, NDArray[np.int64]] = {}
    for branch in reversed(order):
        below = [totals[id(child)] for child in branch.children.values()]
        totals[id(branch)] = add_up([*branch.parts, *below])

    def by_weight(children: Iterable[Branch]) -> Sequence[Branch]:
        return sorted(children, key=lambda c: (-weight(totals[id(c)]), c.name))

    rows: list[Row] = []
    todo: list[tuple[Branch, int | None, int]] = [
        (child, None, 0) for child in reversed(by_weight(root.children.values()))
    ]
    while todo:
        branch, parent, depth = todo.pop()
        rows.append(Row(branch.name, parent, depth, add_up(branch.parts), totals[id(branch)]))
        here = len(rows) - 1
        todo += [(c, here, depth + 1) for c in reversed(by_weight(branch.children.values()))]
    return rows


__all__ = ["MEASURES", "NO_LINE", "Row", "view", "why_not"]
