"""The arrays that the compiled scanner fills: the one place that knows their layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

SAFETY: Final = 64
"""Bytes after a position that the scanner may read."""

DONE, LIST, ODD, FULL = range(4)
"""Why a sweep ended: it reached its goal, the end of the list or an unusual record, or filled a
table."""

_COUNTS = ("position", "slices", "changes", "arrows", "metadata", "others", "hint", "high")
STATE: Final = np.dtype([(name, np.int64) for name in _COUNTS])
"""Position in the text, and counts since the sweep began: slices, changes of memory, flow arrows,
metadata, other records; then whether a record proves an accelerator, and whether any text is not
ASCII."""


def new_state(position: int = 0) -> NDArray[np.void]:
    """A `STATE` at a position with all counts zero; (1,)."""
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
        """Uninitialised columns for `room` slices."""
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
        """Uninitialised columns for `room` changes."""
        return cls(*(np.empty(room, dtype=np.int64) for _ in cls._fields))
