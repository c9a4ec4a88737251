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
    """Ranges of a lane, and the parts in which those that hold others are the innermost.

    Args:
        holds: Whether a range holds others; (ranges,).
        phase: Its phase: its own, else that of the one around it; (ranges,).
        owner: The range that a part is of, as a number; it holds others; (parts,).
        start_ns: Start of the part, ascending; (parts,).
        dur_ns: Its duration, not zero; (parts,).
    """

    holds: NDArray[np.bool_]
    phase: NDArray[np.int8]
    owner: NDArray[np.int32]
    start_ns: NDArray[np.int64]
    dur_ns: NDArray[np.int64]


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
    return Nested(
        np.frombuffer(walk.holds, dtype=bool),
        np.frombuffer(walk.phases, dtype=np.int8),
        np.frombuffer(walk.owner, dtype=np.int32),
        np.frombuffer(walk.start_ns, dtype=np.int64),
        np.frombuffer(walk.dur_ns, dtype=np.int64),
    )


class _Walk:
    """Goes through ranges by their starts, and notes which is the innermost when."""

    def __init__(self, count: int) -> None:
        self.holds = bytearray(count)
        self.phases = array("b")
        self.owner, self.start_ns, self.dur_ns = array("i"), array("q"), array("q")
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
            is_over = own_end <= time_ns
            end = own_end if is_over else time_ns
            if end > cursor:
                # What goes on holds the range that begins here.
                if self.holds[number] or not is_over:
                    self._add(number, cursor, end)
                cursor = end
            if is_over:
                stack.pop()
        self._cursor = time_ns

    def _add(self, owner: int, start_ns: int, end_ns: int) -> None:
        self.owner.append(owner)
        self.start_ns.append(start_ns)
        self.dur_ns.append(end_ns - start_ns)


__all__ = ["Nested", "nest"]
