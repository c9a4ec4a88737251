"""The times in which ranges that contain others are the innermost ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepwhy.base.columns.nesting import nearest, nest
from stepwhy.trace import NULL, Columns, Phase

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.base.columns.nesting import Nesting

    Rows = NDArray[np.int64]
    Times = NDArray[np.int64]


class Nested(NamedTuple):
    """The ranges of a lane, and the gaps between the children of those that contain others.

    Args:
        is_parent: Whether a range contains others; (ranges,).
        phase: Phase of the range, or else of the nearest range around it; (ranges,).
        owner: Parent whose gap it is, ascending in time; (gaps,).
        start_ns: Start of the gap; (gaps,).
        dur_ns: Duration of the gap, not zero; (gaps,).
    """

    is_parent: NDArray[np.bool_]
    phase: NDArray[np.int8]
    owner: NDArray[np.int32]
    start_ns: Times
    dur_ns: Times


def nest_ranges(start_ns: Times, end_ns: Times, phase: NDArray[np.int8]) -> Nested:
    """Nest the ranges of a lane.

    Args:
        start_ns: Starts, ascending, and the longest of equal ones first; (ranges,).
        end_ns: Ends; (ranges,).
        phase: Phases by their names; (ranges,).
    """
    track = np.zeros(len(start_ns), dtype=np.int8)
    slices = Columns(start_ns=start_ns, dur_ns=end_ns - start_ns, track=track)
    nesting = nest(slices, np.ones(1, dtype=bool))
    around = nearest(nesting, phase != Phase.UNKNOWN)
    inherited = np.append(phase, np.int8(Phase.UNKNOWN))[around]  # NULL is the last one
    is_parent = np.zeros(len(start_ns), dtype=bool)
    is_parent[nesting.parent[nesting.parent != NULL]] = True
    return Nested(is_parent, inherited, *_gaps(nesting, start_ns))


def _gaps(nesting: Nesting, start_ns: Times) -> tuple[NDArray[np.int32], Times, Times]:
    """Parents, starts and durations of the gaps before, between and behind children."""
    child = np.flatnonzero(nesting.parent != NULL)
    child = child[np.argsort(nesting.parent[child], kind="stable")]
    parent, child_end = nesting.parent[child], nesting.ends(child)
    is_first = np.append(True, parent[1:] != parent[:-1])[: len(child)]
    is_last = np.append(is_first[1:], True)[: len(child)]
    before = np.where(is_first, start_ns[parent], np.roll(child_end, 1))
    owner = np.append(parent, parent[is_last])
    starts = np.append(before, child_end[is_last])
    ends = np.append(start_ns[child], nesting.ends(parent[is_last]))
    gaps = np.flatnonzero(ends > starts)
    gaps = gaps[np.argsort(starts[gaps], kind="stable")]
    return owner[gaps].astype(np.int32), starts[gaps], (ends - starts)[gaps]


__all__ = ["Nested", "nest_ranges"]
