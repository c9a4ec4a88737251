"""Which slice encloses which on a track, and which one is innermost at what time.

`_tree` builds the call tree of one track.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec
import numpy as np

from stepwhy.columns import compiled
from stepwhy.columns._tree import hang
from stepwhy.columns.chunks import chunks, take
from stepwhy.columns.groups import by_code
from stepwhy.columns.intervals import Intervals
from stepwhy.columns.memory import give_back_after
from stepwhy.columns.narrow import constant, narrowest
from stepwhy.columns.null import NULL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Rows = NDArray[np.int64]
    AnyRows = NDArray[np.signedinteger[Any]]
    Times = NDArray[np.int64]
    Value = TypeVar("Value", np.int8, np.int32, np.int64)

# All tracks one behind another take less, or they are nested one by one.
_LONGEST_NS = 2**62
# Slices that are nested at once: their columns fit into the processor's cache.
_PIECE = 1 << 15
_KERNELS = "stepwhy.columns.kernels.rows"
# Bytes of values that the compiled function passes on.
_INHERITED = (1, 4)
_NO_ROWS = np.empty(0, dtype=np.int64)
# Slices that reach beyond their parents for which there is room at first.
_FEW_CUT = 1 << 12


class Spans(Protocol):
    """Slices as columns: start and duration in ns, and the track they are on."""

    start_ns: NDArray[Any]
    dur_ns: NDArray[Any]
    track: NDArray[Any]


class Nesting(msgspec.Struct, frozen=True):
    """The call trees of the slices of several tracks.

    Args:
        slices: What is nested.
        parent: Row of the enclosing slice, NULL at the top and on tracks without call trees;
            (slices,).
        cut: Slices that reach beyond their parents, ascending; (cut,).
        cut_end_ns: Ends at which these are cut, ns; (cut,).
    """

    slices: Spans
    parent: NDArray[np.int32]
    cut: Rows
    cut_end_ns: Times

    def self_ns(self, rows: AnyRows) -> Times:
        """Durations of some slices not covered by children, ns; (rows,).

        Computed again at each call, because a column of them takes as much memory as the trees.
        """
        durations = self.slices.dur_ns
        give_back_after(len(durations))
        own = durations.astype(narrowest(0, int(durations.max(initial=0))))
        own[self.cut] = self.cut_end_ns - self.slices.start_ns[self.cut]
        for chunk in chunks(len(own)):
            parent = self.parent[chunk]
            inner = parent != NULL
            np.subtract.at(own, parent[inner], self._durations(chunk, own.dtype)[inner])
        found = np.empty(len(rows), dtype=np.int64)
        for chunk in chunks(len(rows)):
            found[chunk] = own[rows[chunk]]
        return found

    def _durations(self, chunk: slice, dtype: np.dtype[Any]) -> AnyRows:
        """Durations of a chunk of slices, those of cut slices as they were cut, ns; (chunk,)."""
        durations: AnyRows = self.slices.dur_ns[chunk].astype(dtype)
        first, last = np.searchsorted(self.cut, [chunk.start, chunk.stop])
        cut = self.cut[first:last]
        durations[cut - chunk.start] = self.cut_end_ns[first:last] - self.slices.start_ns[cut]
        return durations

    def ends(self, rows: Rows) -> Times:
        """Ends of some slices, those of cut slices as they were cut, ns; (rows,)."""
        ends = _ends(self.slices, rows)
        if len(self.cut):
            place = np.minimum(np.searchsorted(self.cut, rows), len(self.cut) - 1)
            was_cut = self.cut[place] == rows
            ends[was_cut] = self.cut_end_ns[place[was_cut]]
        return ends


def nest(slices: Spans, has_calls: NDArray[np.bool_]) -> Nesting:
    """Nest the slices of every track on which slices call each other.

    Args:
        slices: Ordered by start, then longest first.
        has_calls: Whether the slices of each track nest; (tracks,).
    """
    kernels = compiled.for_rows(len(slices.start_ns), _KERNELS)
    if kernels is None:
        return _nest(slices, has_calls)
    return _nest_compiled(kernels, slices, has_calls)


def _nest_compiled(kernels: Any, slices: Spans, has_calls: NDArray[np.bool_]) -> Nesting:
    """Run `nest` with the compiled function."""
    starts, durations, tracks = (
        np.ascontiguousarray(c) for c in (slices.start_ns, slices.dur_ns, slices.track)
    )
    last = np.full(len(has_calls), NULL, dtype=np.int32)
    parent = np.empty(len(starts), dtype=np.int32)
    cuts = np.empty((_FEW_CUT, 2), dtype=np.int64)
    while True:
        is_cut = np.zeros(len(starts), dtype=np.bool_)  # no memory, where nothing is cut
        columns = (starts, durations, tracks, has_calls, last, parent, is_cut, cuts)
        count = kernels.nest_slices(*columns)
        if count >= 0:
            return Nesting(slices, parent, cuts[:count, 0].copy(), cuts[:count, 1].copy())
        last[:] = NULL
        cuts = np.empty((8 * len(cuts), 2), dtype=np.int64)


def _nest(slices: Spans, has_calls: NDArray[np.bool_]) -> Nesting:
    """Run `nest` with NumPy, many slices at a time."""
    parent = np.full(len(slices.track), NULL, dtype=np.int32)
    cuts = [(_NO_ROWS, _NO_ROWS)]
    called = np.flatnonzero(has_calls[slices.track]) if len(slices.track) else _NO_ROWS
    for rows, starts, ends in _pieces(slices, called):
        tree = hang(starts, ends)
        hung = np.flatnonzero(tree.parent != NULL)
        parent[rows[hung]] = rows[tree.parent[hung]]
        if tree.ends is not ends:
            was_cut = np.flatnonzero(tree.ends != ends)
            shift = slices.start_ns[rows[was_cut]] - starts[was_cut]
            cuts.append((rows[was_cut], tree.ends[was_cut] + shift))
    cut, cut_end_ns = (np.concatenate(column) for column in zip(*cuts, strict=True))
    order = np.argsort(cut)
    return Nesting(slices, parent, cut[order], cut_end_ns[order])


def _pieces(slices: Spans, rows: Rows) -> Iterator[tuple[Rows, Times, Times]]:
    """Slices track by track, with starts and ends on clocks on which no two tracks overlap.

    A piece ends where no slice is running, so that each can be nested by itself.

    Args:
        slices: All slices.
        rows: Those that nest, ascending; (rows,).
    """
    for block, starts, ends in _sequences(slices, rows):
        reach = np.maximum.accumulate(ends)
        tops = np.flatnonzero(starts[1:] >= reach[:-1]) + 1
        del reach
        begin = 0
        while begin < len(block):
            place = int(np.searchsorted(tops, begin + _PIECE))
            end = int(tops[place]) if place < len(tops) else len(block)
            yield block[begin:end], starts[begin:end], ends[begin:end]
            begin = end


def _sequences(slices: Spans, rows: Rows) -> Iterator[tuple[Rows, Times, Times]]:
    """As `_pieces`, but all tracks one behind another, or, where that leaves int64, each alone."""
    if not len(rows):
        return
    order, first = by_code(slices.track[rows])
    rows = rows[order]
    starts, ends = slices.start_ns[rows], _ends(slices, rows)
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


def innermost_time(nesting: Nesting, chosen: NDArray[np.bool_]) -> Intervals:
    """When, on any track, the innermost slice is one of the chosen.

    Args:
        nesting: The call trees.
        chosen: Whether each slice is chosen, none on tracks without call trees; (slices,).
    """
    if not chosen.any():
        return Intervals.empty()
    give_back_after(len(chosen))
    return Intervals.covered(*_innermost_edges(nesting, chosen))


def _innermost_edges(nesting: Nesting, chosen: NDArray[np.bool_]) -> tuple[Times, Times]:
    """Where a chosen slice becomes the innermost one, and where it no longer is, ns.

    Both happen only where a slice is chosen and its parent is not, or vice versa.
    """
    around = take(chosen, nesting.parent) & (nesting.parent != NULL)
    entered, left = np.flatnonzero(chosen & ~around), np.flatnonzero(around & ~chosen)
    starts = nesting.slices.start_ns
    inside, outside = nesting.ends(entered), nesting.ends(left)
    return np.concatenate([starts[entered], outside]), np.concatenate([inside, starts[left]])


def innermost_at(nesting: Nesting, rows: Rows, starts: Times, time_ns: int) -> int:
    """The innermost slice of one track at a time, NULL where none is running.

    Args:
        nesting: The call trees.
        rows: All slices of the track, ascending; (rows,).
        starts: Their starts, ns; (rows,).
        time_ns: The time.
    """
    place = int(np.searchsorted(starts, time_ns, side="right")) - 1
    row = int(rows[place]) if place >= 0 else NULL
    while row != NULL and int(nesting.ends(np.asarray([row]))[0]) <= time_ns:
        row = int(nesting.parent[row])
    return row


def inherit(parent: NDArray[np.int32], own: NDArray[Value], null: int = 0) -> NDArray[Value]:
    """Give every row without a value of its own the value of its nearest ancestor.

    Args:
        parent: Row of the parent, which is before its children; NULL at the top; (rows,).
        own: A value per row, which is filled in; (rows,).
        null: The value that means 'none of its own'.
    """
    kernels = compiled.for_rows(len(own), _KERNELS) if own.itemsize in _INHERITED else None
    if kernels is None:
        heirs, heads = _inheritance(parent, own != null)
        own[heirs] = own[heads]
        return own
    kernels.inherit(np.ascontiguousarray(parent), own, own.dtype.type(null))
    return own


def _inheritance(parent: NDArray[np.int32], holds: NDArray[np.bool_]) -> tuple[Rows, Rows]:
    """Slices for which something does not hold, and the nearest around them for which it does.

    While it does not hold for the slice that was found, what that one found takes its place: so
    that they leap further in every round.
    """
    if not holds.any():
        return _NO_ROWS, _NO_ROWS
    at = parent.copy()
    heirs = np.flatnonzero(~holds & (parent != NULL))
    climbing = heirs[~holds[at[heirs]]]
    while len(climbing):
        at[climbing] = at[at[climbing]]
        climbing = climbing[at[climbing] != NULL]
        climbing = climbing[~holds[at[climbing]]]
    heirs = heirs[at[heirs] != NULL]
    return heirs, at[heirs].astype(np.int64)


# Slices of which so many more are asked for than there are, or all, are answered at once.
_SPARSE = 8


def nearest(nesting: Nesting, wanted: NDArray[np.bool_]) -> NDArray[np.int32]:
    """For every slice, itself or the nearest wanted slice around it; (slices,).

    NULL where there is none.

    Args:
        nesting: The call tree.
        wanted: Whether each slice is wanted; (slices,).
    """
    rows = np.flatnonzero(wanted)
    if not len(rows):
        return constant(NULL, len(wanted), np.int32)
    own = np.full(len(wanted), NULL, dtype=np.int32)
    own[rows] = rows
    return inherit(nesting.parent, own, NULL)


def outermost(nesting: Nesting, rows: AnyRows) -> AnyRows:
    """Those of some slices that lie in no other of them; (outermost,)."""
    chosen = np.zeros(len(nesting.parent), dtype=bool)
    chosen[rows] = True
    around = nesting.parent[rows]
    has_parent = np.flatnonzero(around != NULL)
    around[has_parent] = climb(nesting, around[has_parent], chosen)
    found: AnyRows = rows[around == NULL]
    return found


def climb(nesting: Nesting, rows: AnyRows, wanted: NDArray[np.bool_]) -> Rows:
    """For some slices, themselves or the nearest wanted slice around them; (rows,).

    NULL where there is none.

    Args:
        nesting: The call tree.
        rows: The slices.
        wanted: Whether each slice is wanted; (slices,).
    """
    if len(rows) * _SPARSE > len(wanted):
        return nearest(nesting, wanted)[rows].astype(np.int64)
    found = rows.astype(np.int64)
    climbing = np.flatnonzero(~wanted[found])
    while len(climbing):
        above = nesting.parent[found[climbing]]
        found[climbing] = above
        climbing = climbing[(above != NULL) & ~wanted[above]]
    return found


def inside(nesting: Nesting, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether each slice is one of the chosen or lies inside one; (slices,).

    Args:
        nesting: The call tree.
        chosen: Whether each slice is chosen; overwritten; (slices,).
    """
    if not chosen.any():
        return chosen
    return inherit(nesting.parent, chosen.view(np.int8)).view(np.bool_)


def _ends(slices: Spans, rows: Rows) -> Times:
    """Ends as recorded, ns; (rows,)."""
    ends: Times = slices.start_ns[rows]
    ends += slices.dur_ns[rows]
    return ends


__all__ = [
    "Nesting",
    "Spans",
    "climb",
    "inherit",
    "innermost_at",
    "innermost_time",
    "inside",
    "nearest",
    "nest",
    "outermost",
]
