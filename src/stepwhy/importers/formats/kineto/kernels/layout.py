"""The arrays that the compiled scanner fills: the one place that knows their layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

SAFETY: Final = 64
"""Bytes behind a position that the scanner may read."""

DONE, LIST, ODD, FULL = range(4)
"""Why a sweep ended: at its goal, at the end of the list, at an unusual record, at a full table."""

_COUNTS = ("position", "slices", "changes", "arrows", "metadata", "others", "hint", "high")
STATE: Final = np.dtype([(name, np.int64) for name in _COUNTS])
"""Position in the text, and what was found since the sweep began: slices, changes of memory, flow
arrows, metadata, other records; whether there is a sign of an accelerator, and whether there is
text that is not ASCII."""


def new_state(position: int = 0) -> NDArray[np.void]:
    """One `STATE` at a position, before a sweep; (1,)."""
    state = np.zeros(1, dtype=STATE)
    state["position"] = position
    return state


class SliceColumns(NamedTuple):
    """Columns of slices: times in ns; texts and pairs of texts by their ids; (room,) each."""

    start_ns: NDArray[np.int64]
    dur_ns: NDArray[np.int64]
    correlation: NDArray[np.int64]
    sequence: NDArray[np.int64]
    forward: NDArray[np.int64]
    size: NDArray[np.int64]
    offset: NDArray[np.int64]
    length: NDArray[np.int32]
    title: NDArray[np.int32]
    thread: NDArray[np.int32]
    stream: NDArray[np.int32]
    stack: NDArray[np.int32]

    @classmethod
    def empty(cls, room: int) -> Self:
        """Columns for so many slices, not initialised."""
        wide: list[NDArray[Any]] = [np.empty(room, dtype=np.int64) for _ in range(7)]
        return cls(*wide, *(np.empty(room, dtype=np.int32) for _ in range(5)))


class ChangeColumns(NamedTuple):
    """Columns of allocations and releases; (room,) each."""

    time_ns: NDArray[np.int64]
    change: NDArray[np.int64]
    address: NDArray[np.int64]
    allocated: NDArray[np.int64]
    reserved: NDArray[np.int64]
    device_type: NDArray[np.int64]
    device_id: NDArray[np.int64]
    offset: NDArray[np.int64]
    length: NDArray[np.int64]
    thread: NDArray[np.int64]

    @classmethod
    def empty(cls, room: int) -> Self:
        """Columns for so many changes, not initialised."""
        return cls(*(np.empty(room, dtype=np.int64) for _ in cls._fields))
