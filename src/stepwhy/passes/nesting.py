"""Which slice encloses which on a host thread, and who is innermost when.

`call_tree` says how the slices of one thread become a tree.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from stepwhy.passes.call_tree import NO_PARENT, hang
from stepwhy.passes.grouping import by_code
from stepwhy.passes.intervals import Intervals
from stepwhy.trace import Kind, Role

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from stepwhy.trace import Trace

    Rows = NDArray[np.int64]
    Times = NDArray[np.int64]
    Value = TypeVar("Value", np.int8, np.int32, np.int64)

# All tracks one behind another take less, or they are nested one by one.
_LONGEST_NS = 2**62
# Slices that are nested at once: their columns fit into the processor's cache.
_PIECE = 1 << 15


@dataclass(frozen=True)
class Nesting:
    """The call tree of every host thread and executor lane.

    Args:
        parent: Row of the enclosing slice, NO_PARENT at the top and on device streams; (slices,).
        depth: Number of enclosing slices; (slices,).
        self_ns: Duration not covered by children, ns; (slices,).
        cut: Slices that reach beyond their parents, ascending; (cut,).
        cut_end_ns: Ends of these, as they were cut, ns; (cut,).
    """

    parent: NDArray[np.int32]
    depth: NDArray[np.int32]
    self_ns: NDArray[np.int64]
    cut: Rows
    cut_end_ns: Times

    @cached_property
    def levels(self) -> list[NDArray[np.int32]]:
        """The slices of each depth below the top, ascending: those of depth 1, of depth 2, ..."""
        deep = np.flatnonzero(self.depth).astype(np.int32)
        rows, first = by_code(self.depth[deep])
        return np.split(deep[rows], first[1:]) if len(deep) else []

    def ends(self, trace: Trace, rows: Rows) -> Times:
        """Ends of some slices, of those that were cut as they were cut, ns; (rows,)."""
        ends = trace.ends(rows)
        if len(self.cut):
            place = np.minimum(np.searchsorted(self.cut, rows), len(self.cut) - 1)
            was_cut = self.cut[place] == rows
            ends[was_cut] = self.cut_end_ns[place[was_cut]]
        return ends


def nest(trace: Trace) -> Nesting:
    """Nest the slices of every track on which slices call each other."""
    slices, roles = trace.slices, trace.tracks.role
    parent = np.full(len(slices), NO_PARENT, dtype=np.int32)
    depth = np.zeros(len(slices), dtype=np.int32)
    self_ns = slices.dur_ns.copy()
    cuts = [(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))]
    called = np.flatnonzero((roles != Role.STREAM)[slices.track]) if len(slices) else cuts[0][0]
    for rows, starts, ends in _pieces(trace, called):
        tree = hang(starts, ends)
        hung = np.flatnonzero(tree.parent != NO_PARENT)
        above = tree.parent[hung]
        parent[rows[hung]] = rows[above]
        depth[rows] = tree.depth
        own = tree.ends - starts
        if tree.ends is not ends:
            was_cut = np.flatnonzero(tree.ends != ends)
            shift = trace.slices.start_ns[rows[was_cut]] - starts[was_cut]
            cuts.append((rows[was_cut], tree.ends[was_cut] + shift))
        np.subtract.at(own, above, own[hung])
        self_ns[rows] = own
    cut, cut_end_ns = (np.concatenate(column) for column in zip(*cuts, strict=True))
    order = np.argsort(cut)
    return Nesting(parent, depth, self_ns, cut[order], cut_end_ns[order])


def _pieces(trace: Trace, rows: Rows) -> Iterator[tuple[Rows, Times, Times]]:
    """Slices track by track, with starts and ends on clocks on which no two tracks overlap.

    A piece ends where no slice is running, so that each can be nested by itself.

    Args:
        trace: The trace.
        rows: The slices, ascending; (rows,).
    """
    for block, starts, ends in _sequences(trace, rows):
        reach = np.maximum.accumulate(ends)
        tops = np.flatnonzero(starts[1:] >= reach[:-1]) + 1
        del reach
        begin = 0
        while begin < len(block):
            place = int(np.searchsorted(tops, begin + _PIECE))
            end = int(tops[place]) if place < len(tops) else len(block)
            yield block[begin:end], starts[begin:end], ends[begin:end]
            begin = end


def _sequences(trace: Trace, rows: Rows) -> Iterator[tuple[Rows, Times, Times]]:
    """As `_pieces`, but all tracks one behind another, or, where that leaves int64, each alone."""
    if not len(rows):
        return
    order, first = by_code(trace.slices.track[rows])
    rows = rows[order]
    starts, ends = trace.slices.start_ns[rows], trace.ends(rows)
    begins, reach = starts[first], np.maximum.reduceat(ends, first)
    if sum(reach.tolist()) - sum(begins.tolist()) < _LONGEST_NS:
        after = np.cumsum(reach - begins + 1)
        shift = np.concatenate([[0], after[:-1]]) - begins
        for place, (since, until) in enumerate(_bounds(first, len(rows))):
            starts[since:until] += shift[place]
            ends[since:until] += shift[place]
        yield rows, starts, ends
        return
    for since, until in _bounds(first, len(rows)):
        yield rows[since:until], starts[since:until], ends[since:until]


def _bounds(first: NDArray[np.int64], count: int) -> list[tuple[int, int]]:
    """Beginning and end of consecutive groups."""
    begins = first.tolist()
    return list(zip(begins, [*begins[1:], count], strict=True))


def innermost_time(trace: Trace, nesting: Nesting, chosen: NDArray[np.bool_]) -> Intervals:
    """When, on any track, the innermost slice is one of the chosen.

    Only where a slice is chosen and the one around it is not, or the other way round, something
    begins or ends.

    Args:
        trace: The trace.
        nesting: Its call trees.
        chosen: Whether each slice is chosen; those on device streams are not; (slices,).
    """
    around = np.append(chosen, False)[nesting.parent]
    entered, left = np.flatnonzero(chosen & ~around), np.flatnonzero(around & ~chosen)
    starts = trace.slices.start_ns
    inside, outside = nesting.ends(trace, entered), nesting.ends(trace, left)
    return Intervals.covered(
        np.concatenate([starts[entered], outside]), np.concatenate([inside, starts[left]])
    )


def innermost_at(trace: Trace, nesting: Nesting, rows: Rows, starts: Times, time_ns: int) -> int:
    """The innermost slice of one track at a time, NO_PARENT where none is running.

    Args:
        trace: The trace.
        nesting: Its call trees.
        rows: All slices of the track, ascending; (rows,).
        starts: Their starts, ns; (rows,).
        time_ns: The time.
    """
    place = int(np.searchsorted(starts, time_ns, side="right")) - 1
    row = int(rows[place]) if place >= 0 else NO_PARENT
    while row != NO_PARENT and int(nesting.ends(trace, np.asarray([row]))[0]) <= time_ns:
        row = int(nesting.parent[row])
    return row


def inherit(nesting: Nesting, own: NDArray[Value], null: int = 0) -> NDArray[Value]:
    """Give every slice without a value of its own the value of its nearest ancestor.

    Args:
        nesting: The call tree.
        own: A value per slice; (slices,).
        null: The value that means 'none of its own'.
    """
    values = own.copy()
    for rows in nesting.levels:
        heirs = rows[values[rows] == null]
        values[heirs] = values[nesting.parent[heirs]]
    return values


# Slices of which so many more are asked for than there are, or all, are answered at once.
_SPARSE = 8


def climb(nesting: Nesting, rows: Rows, wanted: NDArray[np.bool_]) -> Rows:
    """For some slices, themselves or the nearest wanted slice around them; (rows,).

    NO_PARENT where there is none.

    Args:
        nesting: The call tree.
        rows: The slices.
        wanted: Whether each slice is wanted; (slices,).
    """
    if len(rows) * _SPARSE > len(wanted):
        own = np.where(wanted, np.arange(len(wanted), dtype=np.int32), np.int32(NO_PARENT))
        return inherit(nesting, own, null=NO_PARENT)[rows].astype(np.int64)
    found = rows.astype(np.int64)
    climbing = np.flatnonzero(~wanted[found])
    while len(climbing):
        above = nesting.parent[found[climbing]]
        found[climbing] = above
        climbing = climbing[(above != NO_PARENT) & ~wanted[above]]
    return found


def under(trace: Trace, nesting: Nesting, *kinds: Kind) -> NDArray[np.bool_]:
    """Whether each slice is of one of the kinds, or lies inside such a slice; (slices,)."""
    wanted = trace.is_kind(*kinds)
    if not wanted.any():
        return wanted
    return inherit(nesting, wanted.view(np.int8)).astype(bool)
