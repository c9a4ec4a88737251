"""The call tree of slices that are ordered parents first.

A slice lies inside the last one before it that has not ended when it starts. Slices of one thread
nest; where a file has them overlap without nesting (clock jitter between two sources), the inner
one is cut at its parent's end, so that no time is counted twice.

All slices at once: as long as nothing has to be cut, those around a slice are the earlier ones that
end after its start, so that their number, its depth, is a difference of two ranks.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from stepwhy.columns.groups import by_code
from stepwhy.columns.null import NULL

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Rounds of cutting; a round cuts all slices of which it is sure, so that two or three do.
_MOST_ROUNDS = 12

Times: TypeAlias = "NDArray[np.int64]"
Positions: TypeAlias = "NDArray[np.int64]"


class Tree(NamedTuple):
    """A call tree.

    Args:
        parent: Position of the enclosing slice, NULL at the top; (slices,).
        depth: Number of enclosing slices; (slices,).
        ends: Ends, ns, those of cut slices as they were cut; (slices,). The given ones if none was.
    """

    parent: Positions
    depth: NDArray[np.int64]
    ends: Times


def hang(starts: Times, ends: Times) -> Tree:
    """Find the parents of slices, and cut what reaches beyond its parent.

    Args:
        starts: Starts of the slices, ordered by start, then longest first, ns; (slices,).
        ends: Their ends, ns; (slices,).
    """
    written = ends
    for _ in range(_MOST_ROUNDS):
        depth = _depths(starts, ends)
        parent = _parents(depth)
        limit = ends[parent]
        beyond = (ends > limit) & (parent != NULL)
        if not beyond.any():
            return Tree(parent, depth, ends)
        ends = _cut(starts, ends, limit, beyond)
    return _sweep(starts, written)


def _depths(starts: Times, ends: Times) -> NDArray[np.int64]:
    """How many earlier slices end after the start of each, if none had to be cut; (slices,)."""
    empty = ends == starts
    if not empty.any():
        over = np.searchsorted(np.sort(ends, kind="stable"), starts, side="right")
    else:
        # A slice without length holds nothing: it is over for all behind it, not for itself.
        closed = np.sort(ends[~empty], kind="stable")
        over = np.searchsorted(closed, starts, side="right") + np.cumsum(empty) - empty
    depth: NDArray[np.int64] = np.arange(len(starts)) - over
    return depth


def _parents(depth: NDArray[np.int64]) -> Positions:
    """The last slice before each that is one level higher; (slices,)."""
    parent = np.full(len(depth), NULL, dtype=np.int64)
    order, first = by_code(depth)
    for upper, lower in pairwise(np.split(order, first[1:])):
        parent[lower] = upper[np.searchsorted(upper, lower) - 1]
    return parent


def _cut(starts: Times, ends: Times, limit: Times, beyond: NDArray[np.bool_]) -> Times:
    """Cut slices at their parents' ends, where it is sure that these are their parents.

    A slice that reaches beyond its parent was counted around what starts behind the parent's end,
    and so was what starts there: depths and parents are not sure where these slices lie.
    """
    windows = [(np.maximum(limit, starts)[beyond], ends[beyond])]
    doubtful = np.zeros(len(starts), dtype=bool)
    while True:
        reached = _covered(starts, *windows[-1]) & ~doubtful
        if not reached.any():
            return np.where(beyond & ~doubtful, limit, ends)
        doubtful |= reached
        windows.append((starts[reached], ends[reached]))


def _covered(times: Times, starts: Times, ends: Times) -> NDArray[np.bool_]:
    """Whether each time lies in any of the windows [start, end); times ascend."""
    edges = np.zeros(len(times) + 1, dtype=np.int64)
    np.add.at(edges, np.searchsorted(times, starts), 1)
    np.add.at(edges, np.searchsorted(times, ends), -1)
    result: NDArray[np.bool_] = np.cumsum(edges)[:-1] > 0
    return result


def _sweep(starts: Times, ends: Times) -> Tree:
    """The definition itself, one slice after another."""
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
