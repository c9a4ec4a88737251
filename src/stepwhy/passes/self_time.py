"""How long slices last without the ones inside of them, a piece of the table at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy import native
from stepwhy.passes.call_tree import NO_PARENT
from stepwhy.passes.grouping import numbered
from stepwhy.passes.selection import NO_ROWS, between, parts
from stepwhy.passes.sums import sums_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from stepwhy.passes.nesting import Nesting

    Times = NDArray[np.int64]

# Slices from which on kernels are worth it even where loading them takes 40 ms: without a linker.
_MANY = 1 << 19


def self_times(nesting: Nesting) -> Iterator[tuple[slice, Times]]:
    """Durations not covered by children, ns, of the last slices first.

    What encloses slices stands before them, so that all of its children are known when its turn
    comes. Between two pieces nothing is held but the time that is to be taken from the few slices
    that go on across their bound.

    Args:
        nesting: The call trees.

    Yields:
        A piece of the slices, and the time of each of them.
    """
    count = len(nesting.slices)
    kernel = native.kernel("without_children") if count >= _MANY else None
    above, inside_ns = NO_ROWS, NO_ROWS
    for part in reversed([*parts(count)]):
        own = _durations(nesting, part)
        parent = nesting.parent[part] - np.int32(part.start)
        earlier = np.flatnonzero((parent < 0) & (nesting.parent[part] != NO_PARENT))
        late = nesting.parent[part][earlier], own[earlier]
        if kernel is None:
            hung = np.flatnonzero(parent >= 0)
            own -= sums_of(own[hung], parent[hung], len(own))
        else:
            kernel(parent.ctypes.data, len(own), own.ctypes.data)
        due = above >= part.start
        own[above[due] - part.start] -= inside_ns[due]
        above, inside_ns = _added_up(
            np.concatenate([above[~due], late[0]]), np.concatenate([inside_ns[~due], late[1]])
        )
        yield part, own


def _durations(nesting: Nesting, part: slice) -> Times:
    """Durations of slices, of those that were cut as they were cut, ns."""
    slices = nesting.slices
    durations: Times = slices.dur_ns[part].astype(np.int64)
    cut = between(nesting.cut, part)
    if len(cut):
        first = int(np.searchsorted(nesting.cut, cut[0]))
        ends = nesting.cut_end_ns[first : first + len(cut)]
        durations[cut - part.start] = ends - slices.start_ns[cut]
    return durations


def _added_up(rows: NDArray[np.int64], times: Times) -> tuple[NDArray[np.int64], Times]:
    """Distinct rows, and the sum of the times of each."""
    distinct, group = numbered(rows)
    return distinct, sums_of(times, group, len(distinct))


__all__ = ["self_times"]
