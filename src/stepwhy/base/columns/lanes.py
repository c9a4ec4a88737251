"""Distribute overlapping intervals over lanes, as trace viewers draw them."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

import numpy as np

from stepwhy.base.columns.chunks import chunks
from stepwhy.base.columns.order import stable_order

if TYPE_CHECKING:
    from numpy.typing import NDArray


def assign_lanes(
    start_ns: NDArray[np.signedinteger[Any]], dur_ns: NDArray[np.signedinteger[Any]]
) -> NDArray[np.int32]:
    """Put every interval, in order of the starts, on the lowest lane that is free.

    Args:
        start_ns: Starts, in any order, ns; (intervals,).
        dur_ns: Durations, ns; (intervals,).

    Returns:
        The lane of every interval; on one lane, none overlap; (intervals,).
    """
    order = stable_order(start_ns)
    lanes = np.empty(len(order), dtype=np.int32)
    pool = _LanePool()
    for chunk in chunks(len(order)):
        rows = order[chunk]
        times = zip(start_ns[rows].tolist(), dur_ns[rows].tolist(), strict=True)
        lanes[rows] = [pool.occupy(start, start + duration) for start, duration in times]
    return lanes


class _LanePool:
    """Lanes in use, with the time at which each becomes free, and free lanes; both as heaps."""

    def __init__(self) -> None:
        self._busy: list[tuple[int, int]] = []
        self._free: list[int] = []

    def occupy(self, start: int, end: int) -> int:
        """Occupy the lowest lane that is free at `start`, which must not decrease between calls."""
        while self._busy and self._busy[0][0] <= start:
            heappush(self._free, heappop(self._busy)[1])
        lane = heappop(self._free) if self._free else len(self._busy)
        heappush(self._busy, (end, lane))
        return lane
