"""Which range lies in which, and when each is the innermost."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepwhy.trace import Phase

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Ranges that are Python's objects at a time.
_CHUNK = 1 << 14
_UNKNOWN = int(Phase.UNKNOWN)


class Nested(NamedTuple):
    """Ranges of a lane, and the parts in which each is the innermost.

    Args:
        holds: Whether a range holds others; (ranges,).
        phase: Its phase: its own, else that of the one around it; (ranges,).
        owner: The range that a part is of, as a number; (parts,).
        start_ns: Start of the part; (parts,).
        end_ns: Its end; (parts,).
    """

    holds: NDArray[np.bool_]
    phase: NDArray[np.int8]
    owner: NDArray[np.int32]
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]


def nest(start_ns: NDArray[np.int64], end_ns: NDArray[np.int64], phase: NDArray[np.int8]) -> Nested:
    """What ranges hold.

    Args:
        start_ns: Their starts, ascending, of equal ones the longest range first; (ranges,).
        end_ns: Their ends; (ranges,).
        phase: Phases that their names tell; (ranges,).
    """
    walk = _Walk(len(start_ns))
    for begin in range(0, len(start_ns), _CHUNK):
        some = slice(begin, begin + _CHUNK)
        columns = (start_ns[some].tolist(), end_ns[some].tolist(), phase[some].tolist())
        for number, one in enumerate(zip(*columns, strict=True), begin):
            walk.enter(number, *one)
    walk.reach(int(end_ns.max(initial=0)))
    parts = (np.asarray(part, dtype=part.typecode) for part in walk.parts)
    return Nested(walk.holds, np.asarray(walk.phases, dtype=np.int8), *parts)


class _Walk:
    """Goes through ranges by their starts, and notes which is the innermost when."""

    def __init__(self, count: int) -> None:
        self.holds = np.zeros(count, dtype=bool)
        self.phases = array("b")
        self.parts = (array("i"), array("q"), array("q"))
        self._open: list[tuple[int, int, int]] = []
        self._cursor = 0

    def enter(self, number: int, start: int, end: int, phase: int) -> None:
        """Go on to the start of a range."""
        self.reach(start)
        stack = self._open
        while stack and stack[-1][1] <= start:
            stack.pop()
        if stack:
            around, _, inherited = stack[-1]
            self.holds[around] = True
            phase = inherited if phase == _UNKNOWN else phase
        self.phases.append(phase)
        stack.append((number, end, phase))

    def reach(self, time_ns: int) -> None:
        """Attribute the time up to here, and close what has ended by then."""
        stack, cursor = self._open, self._cursor
        while stack and cursor < time_ns:
            number, own_end, _ = stack[-1]
            end = min(own_end, time_ns)
            if end > cursor:
                self._add(number, cursor, end)
            cursor = max(cursor, end)
            if own_end <= time_ns:
                stack.pop()
        self._cursor = time_ns

    def _add(self, *part: int) -> None:
        for column, value in zip(self.parts, part, strict=True):
            column.append(value)


__all__ = ["Nested", "nest"]
