"""Build the call tree of slices that are ordered parents first.

The parent of a slice is the last earlier slice that is still open when it starts. Slices of one
thread nest. Where a file has them overlap without nesting (clock jitter between two sources), the
child is cut at its parent's end, so that no time is counted twice.

The tree is built for all slices at once: as long as nothing has to be cut, a slice lies inside all
earlier slices that end after its start. Their number, the depth, is a difference of two ranks.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from stepwhy.base.columns.groups import by_code
from stepwhy.base.columns.null import NULL

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Rounds of cutting before the slower loop takes over; two or three are usually enough.
_MAX_ROUNDS = 12

Times: TypeAlias = "NDArray[np.int64]"
Positions: TypeAlias = "NDArray[np.int64]"


class Tree(NamedTuple):
    """A call tree.

    Args:
        parent: Position of the enclosing slice, NULL at the top; (slices,).
        depth: Number of enclosing slices; (slices,).
        ends: Ends after cutting, ns; (slices,). The input array itself if nothing was cut.
    """

    parent: Positions
    depth: NDArray[np.int64]
    ends: Times


def build_tree(starts: Times, ends: Times) -> Tree:
    """Build the call tree, cutting slices that end after their parent.

    Args:
        starts: Starts of the slices, ordered by start, then longest first, ns; (slices,).
        ends: Their ends, ns; (slices,).
    """
    recorded = ends
    for _ in range(_MAX_ROUNDS):
        depth = _depths(starts, ends)
        parent = _parents(depth)
        limit = ends[parent]
        beyond = (ends > limit) & (parent != NULL)
        if not beyond.any():
            return Tree(parent, depth, ends)
        ends = _cut(starts, ends, limit, beyond)
    return _build_one_by_one(starts, recorded)


def _depths(starts: Times, ends: Times) -> NDArray[np.int64]:
    """Number of earlier slices still open at the start of each, if none is cut; (slices,)."""
    empty = ends == starts
    if not empty.any():
        closed = np.searchsorted(np.sort(ends, kind="stable"), starts, side="right")
    else:
        # A slice of length zero has no children: it is closed for all later slices.
        other_ends = np.sort(ends[~empty], kind="stable")
        closed = np.searchsorted(other_ends, starts, side="right") + np.cumsum(empty) - empty
    depth: NDArray[np.int64] = np.arange(len(starts)) - closed
    return depth


def _parents(depth: NDArray[np.int64]) -> Positions:
    """Position of the last earlier slice that is one level higher; NULL at the top; (slices,)."""
    parent = np.full(len(depth), NULL, dtype=np.int64)
    order, first = by_code(depth)
    for upper, lower in pairwise(np.split(order, first[1:])):
        parent[lower] = upper[np.searchsorted(upper, lower) - 1]
    return parent


def _cut(starts: Times, ends: Times, limit: Times, beyond: NDArray[np.bool_]) -> Times:
    """Cut slices at their parents' ends, if the parent is certain; all ends, ns; (slices,).

    A slice that ends after its parent was counted as enclosing the slices that start after the
    parent's end. These, and all that start while they run, may have a wrong depth and parent. They
    are left to the next round.
    """
    windows = [(np.maximum(limit, starts)[beyond], ends[beyond])]
    uncertain = np.zeros(len(starts), dtype=bool)
    while True:
        reached = _covered(starts, *windows[-1]) & ~uncertain
        if not reached.any():
            return np.where(beyond & ~uncertain, limit, ends)
        uncertain |= reached
        windows.append((starts[reached], ends[reached]))


def _covered(times: Times, starts: Times, ends: Times) -> NDArray[np.bool_]:
    """Mask of the times inside any window [start, end); times must ascend; (times,)."""
    edges = np.zeros(len(times) + 1, dtype=np.int64)
    np.add.at(edges, np.searchsorted(times, starts), 1)
    np.add.at(edges, np.searchsorted(times, ends), -1)
    result: NDArray[np.bool_] = np.cumsum(edges)[:-1] > 0
    return result


def _build_one_by_one(starts: Times, ends: Times) -> Tree:
    """Build the tree one slice after another: the reference implementation."""
    parent = np.full(len(starts), NULL, dtype=np.int64)
    depth = np.zeros(len(starts), dtype=np.int64)
    cut = ends.tolist()
    stack: list[int] = []
    for position, start in enumerate(starts.tolist()):
        while stack and cut[stack[-1]] <= start:
            stack.pop()
        if stack:
            parent[position], depth[position] = stack[-1], len(stack)
            cut[position] = min(cut[position], cut[stack[-1]])
        stack.append(position)
    return Tree(parent, depth, np.asarray(cut, dtype=np.int64))
