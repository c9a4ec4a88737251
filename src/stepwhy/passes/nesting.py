"""Which slice encloses which on a host thread, and who is innermost when.

Slices of one thread nest; where a file has them overlap without nesting (clock jitter between two
sources), the inner one is cut at its parent's end, so that no time is counted twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stepwhy.trace import Kind, Role

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.trace import Trace

NO_PARENT = -1


@dataclass(frozen=True, slots=True)
class Nesting:
    """The call tree of every host thread and executor lane.

    Args:
        parent: Row of the enclosing slice, NO_PARENT at the top and on device streams; (slices,).
        depth: Number of enclosing slices; (slices,).
        self_ns: Duration not covered by children, ns; (slices,).
        segment_start_ns, segment_end_ns, segment_row: The timeline of innermost slices: from
            start to end, row is innermost on its track. Unordered across tracks; (segments,).
    """

    parent: NDArray[np.int64]
    depth: NDArray[np.int32]
    self_ns: NDArray[np.int64]
    segment_start_ns: NDArray[np.int64]
    segment_end_ns: NDArray[np.int64]
    segment_row: NDArray[np.int64]


def nest(trace: Trace) -> Nesting:
    """Nest the slices of every track on which slices call each other."""
    count = len(trace.slices)
    parent = np.full(count, NO_PARENT, dtype=np.int64)
    depth = np.zeros(count, dtype=np.int32)
    self_ns = trace.slices.dur_ns.copy()
    segments: list[tuple[int, int, int]] = []
    roles = trace.tracks.role
    # Sorted once: a search per track is quadratic where every iteration has threads of its own.
    by_track = np.argsort(trace.slices.track, kind="stable")
    tracks, first = np.unique(trace.slices.track[by_track], return_index=True)
    for track, rows in zip(tracks, np.split(by_track, first)[1:], strict=True):
        if roles[track] != Role.STREAM:
            _nest_track(trace, rows, parent, depth, segments)
    shape = np.asarray(segments, dtype=np.int64).reshape(-1, 3)
    starts, ends, owners = shape[:, 0], shape[:, 1], shape[:, 2]
    called = roles[trace.slices.track] != Role.STREAM if count else np.empty(0, dtype=bool)
    self_ns[called] = 0
    np.add.at(self_ns, owners, ends - starts)
    return Nesting(parent, depth, self_ns, starts, ends, owners)


def _nest_track(
    trace: Trace,
    rows: NDArray[np.int64],
    parent: NDArray[np.int64],
    depth: NDArray[np.int32],
    segments: list[tuple[int, int, int]],
) -> None:
    """One sweep with a stack; rows are ordered parents first."""
    starts = trace.slices.start_ns[rows].tolist()
    ends = trace.end_ns[rows].tolist()
    stack: list[tuple[int, int]] = []  # (row, end), innermost last
    cursor = 0  # everything before it is attributed

    for row, start, end in zip(rows.tolist(), starts, ends, strict=True):
        while stack and stack[-1][1] <= start:
            closed, closed_end = stack.pop()
            if closed_end > cursor:
                segments.append((cursor, closed_end, closed))
                cursor = closed_end
        if stack:
            outer, outer_end = stack[-1]
            if start > cursor:
                segments.append((cursor, start, outer))
            parent[row] = outer
            depth[row] = len(stack)
            end = min(end, outer_end)  # noqa: PLW2901 - the cut child
        cursor = max(cursor, start) if stack else start
        stack.append((row, end))
    while stack:
        closed, closed_end = stack.pop()
        if closed_end > cursor:
            segments.append((cursor, closed_end, closed))
            cursor = closed_end


def inherit(nesting: Nesting, own: NDArray[np.int8], null: int = 0) -> NDArray[np.int8]:
    """Give every slice without a value of its own the value of its nearest ancestor.

    Args:
        nesting: The call tree.
        own: A value per slice; (slices,).
        null: The value that means 'none of its own'.
    """
    values = own.copy()
    by_depth = np.argsort(nesting.depth, kind="stable")
    _, first = np.unique(nesting.depth[by_depth], return_index=True)
    for rows in np.split(by_depth, first[1:])[1:]:
        heirs = rows[values[rows] == null]
        values[heirs] = values[nesting.parent[heirs]]
    return values


def under(trace: Trace, nesting: Nesting, *kinds: Kind) -> NDArray[np.bool_]:
    """Whether each slice is of one of the kinds, or lies inside such a slice; (slices,)."""
    wanted = np.isin(trace.slices.kind, [int(k) for k in kinds]).astype(np.int8)
    return inherit(nesting, wanted).astype(bool)
