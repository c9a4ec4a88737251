"""The nodes of a call tree to list, as means per step that add up."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.analyse.answers.call_tree import DEVICE, HOST, TreeNode
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from stepwhy.analyse.answers.call_tree import CallTree

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]


class TreeRow(msgspec.Struct, frozen=True):
    """A listed node; its `parent` is the position of another row, -1 at the top."""

    node: TreeNode
    depth: int
    own: Ints
    total: Ints


def tree_rows(tree: CallTree, most: int) -> list[TreeRow]:
    """The nodes with the largest share of the host's or the device's time, and sums of the others.

    Args:
        tree: The tree.
        most: Number of nodes; each may have one more below it, for what is left out there.

    Returns:
        Parents before children, which come longest first. Times are sums over all steps.
    """
    total = _totals(tree)
    chosen = _largest(tree, total, most)
    children: defaultdict[int, list[int]] = defaultdict(list)
    left_out: defaultdict[int, list[int]] = defaultdict(list)
    for place, node in enumerate(tree.nodes):
        if total[place].any():
            (children if chosen[place] else left_out)[node.parent].append(place)
    for parent in [one for one, places in left_out.items() if len(places) == 1]:
        # Alone, a leaf takes as much room by its own name.
        if not {*left_out[parent]} & (children.keys() | left_out.keys()):
            children[parent] += left_out.pop(parent)
    rows: list[TreeRow] = []
    todo = [(place, NULL, 0) for place in _shortest_first(children.get(NULL, ()), total)]
    while todo:
        place, parent, depth = todo.pop()
        node, here = tree.nodes[place], len(rows)
        named = TreeNode(parent, node.kind, node.name, node.category)
        rows.append(TreeRow(named, depth, tree.own[place], total[place]))
        if others := left_out.get(place):
            rows.append(_others(tree, others, total, here, depth + 1))
        inner = _shortest_first(children.get(place, ()), total)
        todo += [(one, here, depth + 1) for one in inner]
    if others := left_out.get(NULL):
        rows.append(_others(tree, others, total, NULL, 0))
    return rows


def _totals(tree: CallTree) -> Ints:
    """Time of each node and of all below it; (nodes, 3)."""
    total = tree.own.copy()
    for place in range(len(tree.nodes) - 1, -1, -1):
        parent = tree.nodes[place].parent
        if parent != NULL:
            total[parent] += total[place]
    return total


def _largest(tree: CallTree, total: Ints, most: int) -> NDArray[np.bool_]:
    """Mask of the nodes to list: no node is larger than its parent, which comes first; (nodes,)."""
    whole = np.maximum(tree.own.sum(axis=0), 1)
    share = (total / whole)[:, [HOST, DEVICE]].max(axis=1, initial=0.0)
    chosen = np.zeros(len(share), dtype=bool)
    chosen[np.argsort(-share, kind="stable")[:most]] = True
    chosen &= share > 0
    return chosen


def _shortest_first(places: Sequence[int], total: Ints) -> list[int]:
    return sorted(places, key=lambda one: (int(total[one, [HOST, DEVICE]].sum()), -one))


def _others(tree: CallTree, places: Sequence[int], total: Ints, parent: int, depth: int) -> TreeRow:
    """The row of nodes that are not listed, all of which are below one parent."""
    kinds = {tree.nodes[place].category for place in places}
    category = kinds.pop() if len(kinds) == 1 else ""
    name = f"({len(places):,} other{'s' * (len(places) > 1)})"
    summed = total[list(places)].sum(axis=0)
    return TreeRow(TreeNode(parent, "others", name, category), depth, summed, summed)


def means(rows: Sequence[TreeRow], steps: int) -> Iterator[tuple[Ints, Ints]]:
    """Own and total times of rows per step, in whole ns: a total is the sum of what it contains.

    Each row is rounded so that the sum of all rows above it is exact to one nanosecond.

    Args:
        rows: The rows; sums over all steps.
        steps: Number of steps.
    """
    until = np.cumsum([row.own for row in rows], axis=0) // steps
    own = np.diff(until, axis=0, prepend=0)
    total = own.copy()
    for place in range(len(rows) - 1, -1, -1):
        if rows[place].node.parent != NULL:
            total[rows[place].node.parent] += total[place]
    return zip(own, total, strict=True)
