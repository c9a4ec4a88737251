"""Call trees of the slices of all tracks: parents, self time and innermost slices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec
import numpy as np

from stepwhy.base.columns import compiled
from stepwhy.base.columns._tree import build_tree
from stepwhy.base.columns.chunks import chunks
from stepwhy.base.columns.groups import by_code
from stepwhy.base.columns.growing import Growing
from stepwhy.base.columns.intervals import Intervals
from stepwhy.base.columns.memory import give_back_after
from stepwhy.base.columns.narrow import constant, narrowest
from stepwhy.base.columns.null import NULL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from stepwhy.base.columns.types import AnyRows, Rows, Times

    Value = TypeVar("Value", np.int8, np.int32, np.int64)

# Total time of all tracks, ns, up to which they are shifted apart on one clock.
_LONGEST_NS = 2**62
# Slices nested at once; their columns fit into the processor's cache.
_BATCH = 1 << 15
_KERNELS = "stepwhy.base.columns.kernels.rows"
# Bytes per value for which `inherit` is compiled.
_COMPILED_SIZES = (1, 4)
_NO_ROWS = np.empty(0, dtype=np.int64)
# Initial room for slices that are cut.
_CUT_ROOM = 1 << 12


class Spans(Protocol):
    """Slices as columns: start and duration in ns, and the track they are on."""

    start_ns: NDArray[Any]
    dur_ns: NDArray[Any]
    track: NDArray[Any]


class Nesting(msgspec.Struct, frozen=True):
    """The call trees of the slices of several tracks.

    Args:
        slices: The slices.
        parent: Row of the enclosing slice, NULL at the top and on tracks without call trees;
            (slices,).
        cut: Rows of slices that end after their parent, ascending; (cut,).
        cut_end_ns: Ends of these slices after cutting, ns; (cut,).
    """

    slices: Spans
    parent: NDArray[np.int32]
    cut: Rows
    cut_end_ns: Times

    def self_ns(self, rows: AnyRows) -> Times:
        """Time of the given slices that no child covers, ns; (rows,).

        Computed again at each call, because a column of it takes as much memory as the trees.
        """
        durations = self.slices.dur_ns
        give_back_after(len(durations))
        # The last element, at index NULL, receives the slices without a parent; it may overflow.
        own = np.empty(len(durations) + 1, dtype=narrowest(0, int(durations.max(initial=0))))
        own[:-1] = durations
        own[self.cut] = self.cut_end_ns - self.slices.start_ns[self.cut]
        for chunk in chunks(len(durations)):
            np.subtract.at(own, self.parent[chunk], self._durations(chunk, own.dtype))
        found = np.empty(len(rows), dtype=np.int64)
        for chunk in chunks(len(rows)):
            found[chunk] = own[rows[chunk]]
        return found

    def _durations(self, chunk: slice, dtype: np.dtype[Any]) -> AnyRows:
        """Durations of a chunk of slices after cutting, ns; (chunk,)."""
        durations: AnyRows = self.slices.dur_ns[chunk].astype(dtype)
        first, last = np.searchsorted(self.cut, [chunk.start, chunk.stop])
        cut = self.cut[first:last]
        durations[cut - chunk.start] = self.cut_end_ns[first:last] - self.slices.start_ns[cut]
        return durations

    def ends(self, rows: Rows) -> Times:
        """Ends of the given slices after cutting, ns; (rows,)."""
        ends = _ends(self.slices, rows)
        if len(self.cut):
            place = np.minimum(np.searchsorted(self.cut, rows), len(self.cut) - 1)
            was_cut = self.cut[place] == rows
            ends[was_cut] = self.cut_end_ns[place[was_cut]]
        return ends


def nest(slices: Spans, has_calls: NDArray[np.bool_]) -> Nesting:
    """Build the call trees of all tracks.

    Args:
        slices: Slices, ordered by start, then longest first.
        has_calls: Whether a track has a call tree: threads have, device streams have not;
            (tracks,).
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
    cuts = np.empty((_CUT_ROOM, 2), dtype=np.int64)
    while True:
        is_cut = np.zeros(len(starts), dtype=np.bool_)  # its pages take no memory until written
        columns = (starts, durations, tracks, has_calls, last, parent, is_cut, cuts)
        count = kernels.nest_slices(*columns)
        if count >= 0:
            return Nesting(slices, parent, cuts[:count, 0].copy(), cuts[:count, 1].copy())
        last[:] = NULL
        cuts = np.empty((8 * len(cuts), 2), dtype=np.int64)


def _nest(slices: Spans, has_calls: NDArray[np.bool_]) -> Nesting:
    """Run `nest` with NumPy, a batch of slices at a time."""
    parent = np.full(len(slices.track), NULL, dtype=np.int32)
    cuts = [(_NO_ROWS, _NO_ROWS)]
    called = np.flatnonzero(has_calls[slices.track]) if len(slices.track) else _NO_ROWS
    for rows, starts, ends in _batches(slices, called):
        tree = build_tree(starts, ends)
        children = np.flatnonzero(tree.parent != NULL)
        parent[rows[children]] = rows[tree.parent[children]]
        if tree.ends is not ends:
            was_cut = np.flatnonzero(tree.ends != ends)
            shift = slices.start_ns[rows[was_cut]] - starts[was_cut]
            cuts.append((rows[was_cut], tree.ends[was_cut] + shift))
    cut, cut_end_ns = (np.concatenate(column) for column in zip(*cuts, strict=True))
    order = np.argsort(cut)
    return Nesting(slices, parent, cut[order], cut_end_ns[order])


def _batches(slices: Spans, rows: Rows) -> Iterator[tuple[Rows, Times, Times]]:
    """Yield batches of slices, track by track: rows, starts and ends.

    A batch ends where no slice is running, so each can be nested by itself. The tracks are shifted
    in time so that no two overlap.

    Args:
        slices: All slices.
        rows: Slices on tracks with call trees, ascending; (rows,).
    """
    for block, starts, ends in _tracks_in_sequence(slices, rows):
        reach = np.maximum.accumulate(ends)
        tops = np.flatnonzero(starts[1:] >= reach[:-1]) + 1
        del reach
        begin = 0
        while begin < len(block):
            place = int(np.searchsorted(tops, begin + _BATCH))
            end = int(tops[place]) if place < len(tops) else len(block)
            yield block[begin:end], starts[begin:end], ends[begin:end]
            begin = end


def _tracks_in_sequence(slices: Spans, rows: Rows) -> Iterator[tuple[Rows, Times, Times]]:
    """Yield all tracks as one sequence; each track by itself if the total time exceeds int64."""
    if not len(rows):
        return
    order, first = by_code(slices.track[rows])
    rows = rows[order]
    starts, ends = slices.start_ns[rows], _ends(slices, rows)
    begins, reach = starts[first], np.maximum.reduceat(ends, first)
    if sum(reach.tolist()) - sum(begins.tolist()) < _LONGEST_NS:
        after = np.cumsum(reach - begins + 1)
        shift = np.concatenate([[0], after[:-1]]) - begins
        for place, (since, until) in enumerate(_group_bounds(first, len(rows))):
            starts[since:until] += shift[place]
            ends[since:until] += shift[place]
        yield rows, starts, ends
        return
    for since, until in _group_bounds(first, len(rows)):
        yield rows[since:until], starts[since:until], ends[since:until]


def _group_bounds(first: NDArray[np.int64], count: int) -> list[tuple[int, int]]:
    """First and last position (exclusive) of consecutive groups."""
    begins = first.tolist()
    return list(zip(begins, [*begins[1:], count], strict=True))


def innermost_time(nesting: Nesting, chosen: NDArray[np.bool_]) -> Intervals:
    """Times at which the innermost slice of at least one track is chosen.

    Args:
        nesting: The call trees.
        chosen: Mask of slices; False on tracks without call trees; (slices,).
    """
    if not chosen.any():
        return Intervals.empty()
    give_back_after(len(chosen))
    return Intervals.covered(*_innermost_edges(nesting, chosen))


def _innermost_edges(nesting: Nesting, chosen: NDArray[np.bool_]) -> tuple[Times, Times]:
    """Times at which chosen slices become innermost, and at which they stop being so, ns.

    Either happens only where a slice is chosen and its parent is not, or vice versa.
    """
    begins, ends = Growing(np.int64), Growing(np.int64)
    for chunk in chunks(len(chosen)):
        parent, own = nesting.parent[chunk], chosen[chunk]
        around = chosen[parent] & (parent != NULL)
        entered, left = (
            chunk.start + np.flatnonzero(mask) for mask in (own & ~around, around & ~own)
        )
        begins.append(nesting.slices.start_ns[entered])
        begins.append(nesting.ends(left))
        ends.append(nesting.ends(entered))
        ends.append(nesting.slices.start_ns[left])
    return begins.values(), ends.values()


def innermost_at(nesting: Nesting, rows: Rows, starts: Times, time_ns: int) -> int:
    """Row of the slice of one track that is innermost at a time, NULL if none is running.

    Args:
        nesting: The call trees.
        rows: All slices of the track, ascending; (rows,).
        starts: Their starts, ns; (rows,).
        time_ns: The time, ns.
    """
    place = int(np.searchsorted(starts, time_ns, side="right")) - 1
    row = int(rows[place]) if place >= 0 else NULL
    while row != NULL and int(nesting.ends(np.asarray([row]))[0]) <= time_ns:
        row = int(nesting.parent[row])
    return row


def inherit(parent: NDArray[np.int32], own: NDArray[Value], null: int = 0) -> NDArray[Value]:
    """Fill in missing values with the value of the nearest ancestor that has one.

    Args:
        parent: Row of the parent, which comes before its children; NULL at the top; (rows,).
        own: Value of every row; changed in place; (rows,).
        null: Value that means 'missing'.

    Returns:
        `own`.
    """
    kernels = compiled.for_rows(len(own), _KERNELS) if own.itemsize in _COMPILED_SIZES else None
    if kernels is None:
        rows, ancestors = _nearest_ancestors(parent, own != null)
        own[rows] = own[ancestors]
        return own
    kernels.inherit(np.ascontiguousarray(parent), own, own.dtype.type(null))
    return own


def _nearest_ancestors(
    parent: NDArray[np.int32], has_value: NDArray[np.bool_]
) -> tuple[Rows, Rows]:
    """Rows without a value whose ancestors have one, and the nearest such ancestors; (found,) each.

    Pointer jumping: in every round, a candidate without a value is replaced by its own candidate,
    so the distance doubles.
    """
    if not has_value.any():
        return _NO_ROWS, _NO_ROWS
    ancestor = parent.copy()
    rows = np.flatnonzero(~has_value & (parent != NULL))
    climbing = rows[~has_value[ancestor[rows]]]
    while len(climbing):
        ancestor[climbing] = ancestor[ancestor[climbing]]
        climbing = climbing[ancestor[climbing] != NULL]
        climbing = climbing[~has_value[ancestor[climbing]]]
    rows = rows[ancestor[rows] != NULL]
    return rows, ancestor[rows].astype(np.int64)


# `climb` works on all slices at once if it is asked for more than one in this many.
_SPARSE = 8


def nearest(nesting: Nesting, chosen: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Nearest chosen ancestor of every slice, or the slice itself if it is chosen; (slices,).

    NULL where there is none.

    Args:
        nesting: The call trees.
        chosen: Mask of slices; (slices,).
    """
    rows = np.flatnonzero(chosen)
    if not len(rows):
        return constant(NULL, len(chosen), np.int32)
    own = np.full(len(chosen), NULL, dtype=np.int32)
    own[rows] = rows
    return inherit(nesting.parent, own, NULL)


def outermost(nesting: Nesting, rows: AnyRows) -> AnyRows:
    """The given slices without those that lie inside another one of them; (outermost,)."""
    chosen = np.zeros(len(nesting.parent), dtype=bool)
    chosen[rows] = True
    around = nesting.parent[rows]
    has_parent = np.flatnonzero(around != NULL)
    around[has_parent] = climb(nesting, around[has_parent], chosen)
    found: AnyRows = rows[around == NULL]
    return found


def climb(nesting: Nesting, rows: AnyRows, chosen: NDArray[np.bool_]) -> Rows:
    """`nearest` for the given slices only; (rows,).

    Args:
        nesting: The call trees.
        rows: The slices.
        chosen: Mask of slices; (slices,).
    """
    if len(rows) * _SPARSE > len(chosen):
        return nearest(nesting, chosen)[rows].astype(np.int64)
    found = rows.astype(np.int64)
    climbing = np.flatnonzero(~chosen[found])
    while len(climbing):
        above = nesting.parent[found[climbing]]
        found[climbing] = above
        climbing = climbing[(above != NULL) & ~chosen[above]]
    return found


def callers(nesting: Nesting, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Mask of slices that directly contain a chosen one; (slices,).

    Args:
        nesting: The call trees.
        chosen: Mask of slices; (slices,).
    """
    # Slices without a parent mark the last entry, because NULL is -1.
    found = np.zeros(len(chosen) + 1, dtype=bool)
    for some in chunks(len(chosen)):
        found[nesting.parent[some][chosen[some]]] = True
    return found[:-1]


def inside(nesting: Nesting, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Mask of slices that are chosen or lie inside a chosen one; (slices,).

    Args:
        nesting: The call trees.
        chosen: Mask of slices; overwritten; (slices,).
    """
    if not chosen.any():
        return chosen
    return inherit(nesting.parent, chosen.view(np.int8)).view(np.bool_)


def _ends(slices: Spans, rows: Rows) -> Times:
    """Ends before cutting, ns; (rows,)."""
    ends: Times = slices.start_ns[rows]
    ends += slices.dur_ns[rows]
    return ends
