"""Distributes intervals that overlap over lanes on which none do."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

import numpy as np

from stepwhy.columns.chunks import chunks
from stepwhy.columns.order import stable_order

if TYPE_CHECKING:
    from numpy.typing import NDArray


def assign_lanes(
    start_ns: NDArray[np.signedinteger[Any]], dur_ns: NDArray[np.signedinteger[Any]]
) -> NDArray[np.int32]:
    """First-fit lanes in order of the starts: on one lane, each ends before the next begins.

    Args:
        start_ns: Starts, in any order; (entries,).
        dur_ns: Durations; (entries,).

    Returns:
        The lane of every entry; (entries,).
    """
    order = stable_order(start_ns)
    lanes = np.empty(len(order), dtype=np.int32)
    free = _Free()
    for piece in chunks(len(order)):
        rows = order[piece]
        times = zip(start_ns[rows].tolist(), dur_ns[rows].tolist(), strict=True)
        lanes[rows] = [free.take(start, start + duration) for start, duration in times]
    return lanes


class _Free:
    """Lanes in use and when they become free."""

    def __init__(self) -> None:
        self._busy: list[tuple[int, int]] = []
        self._free: list[int] = []

    def take(self, start: int, end: int) -> int:
        """Occupy the lowest lane that is free at `start`, which never decreases between calls."""
        while self._busy and self._busy[0][0] <= start:
            heappush(self._free, heappop(self._busy)[1])
        lane = heappop(self._free) if self._free else len(self._busy)
        heappush(self._busy, (end, lane))
        return lane


__all__ = ["assign_lanes"]
