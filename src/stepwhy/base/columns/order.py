"""Sorting rows; the order is returned as row numbers of 32 bits where possible."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stepwhy.base.columns import compiled
from stepwhy.base.columns.memory import give_back_after

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Block = NDArray[Any]
    Order = NDArray[np.signedinteger[Any]]

# Limits of the compiled merge sort: rows, and sorted runs among them.
_MOST_ROWS: Final = 1 << 31
_MOST_RUNS: Final = 1 << 9


def stable_order(values: NDArray[np.signedinteger[Any]]) -> NDArray[np.int32]:
    """Return `np.argsort(values, kind="stable")` as 32-bit rows; (rows,).

    Args:
        values: Fewer than 2**31 integers; (rows,).
    """
    return np.argsort(values, kind="stable").astype(np.int32)


def parents_first(start_ns: Block, dur_ns: Block) -> Order | None:
    """Return the order by start, then longest first, then row; None if rows are sorted already.

    Most files consist of one sorted run per thread, or a few more, which are merged.

    Args:
        start_ns: Starts, ns; (rows,).
        dur_ns: Durations, ns; (rows,).
    """
    give_back_after(len(start_ns))
    same = start_ns[1:] == start_ns[:-1]
    behind = start_ns[1:] < start_ns[:-1]
    behind |= same & (dur_ns[1:] > dur_ns[:-1])
    breaks = np.flatnonzero(behind) + 1
    if not len(breaks):
        return None
    few = len(breaks) < _MOST_RUNS and len(start_ns) < _MOST_ROWS
    kernels = compiled.for_rows(len(start_ns), "stepwhy.base.columns.kernels.rows") if few else None
    if kernels is not None:
        return _merged(kernels, start_ns, dur_ns, [0, *breaks.tolist(), len(start_ns)])
    return _sorted(start_ns, dur_ns)


def _sorted(start_ns: Block, dur_ns: Block) -> Order:
    """Sort by start, then sort the few rows that start together by duration."""
    order = stable_order(start_ns)
    starts = start_ns[order]
    same = starts[1:] == starts[:-1]
    tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
    rows = order[tied]
    order[tied] = rows[np.lexsort((-dur_ns[rows], starts[tied]))]
    return order


def _merged(kernels: Any, start_ns: Block, dur_ns: Block, bounds: list[int]) -> Order:
    """Merge sorted runs, always the shortest two neighbours first.

    Args:
        kernels: Module of compiled functions.
        start_ns: Starts, ns; (rows,).
        dur_ns: Durations, ns; (rows,).
        bounds: First row of every run, and the number of rows; changed in place.
    """
    starts, durations = np.ascontiguousarray(start_ns), np.ascontiguousarray(dur_ns)
    order = np.arange(len(starts), dtype=np.int32)
    spare = np.empty(len(starts) // 2, dtype=np.int32)
    while len(bounds) > 2:
        place = min(range(len(bounds) - 2), key=lambda p: bounds[p + 2] - bounds[p])
        kernels.merge_rows(starts, durations, order, spare, *bounds[place : place + 3])
        del bounds[place + 1]
    return order
