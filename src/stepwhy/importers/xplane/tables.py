"""Tables that compiled kernels look things up in, as they lie in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

# A table this much longer than the ids are many is still a table; beyond it they are searched.
_DENSE = 4
_SMALL = 1024
_FIRST_TEXTS = 1 << 10
_FIRST_ARENA = 1 << 16
_ENTRY = 3  # words of an entry of a table of texts: address, length, hash


class IdTable:
    """Numbers by id.

    Args:
        keys: Ids, ascending.
        values: Their numbers.
        missing: What stands for ids that are not there.
    """

    def __init__(self, keys: NDArray[np.int64], values: NDArray[np.int32], missing: int) -> None:
        near = (keys >= 0) & (keys < _DENSE * len(keys) + _SMALL)
        dense = np.full(int(keys[near].max(initial=-1)) + 1, missing, dtype=np.int32)
        dense[keys[near]] = values[near]
        self._arrays = dense, keys[~near], values[~near].astype(np.int32)
        dense, far, of_far = self._arrays
        self._fields = np.array(
            [dense.ctypes.data, len(dense), far.ctypes.data, of_far.ctypes.data, len(far)],
            dtype=np.int64,
        )

    @property
    def address(self) -> int:
        """Where the kernel's description of the table lies; valid as long as this object."""
        return self._fields.ctypes.data


class TextTable:
    """Numbers texts in the order of their first sight, for kernels.

    Its fields and entries are those of `stepwhy.native.kernels.interning`.
    """

    def __init__(self) -> None:
        self._fields = np.zeros(8, dtype=np.int64)
        self._slots, self._entries, self._arena = _room_for(_FIRST_TEXTS, _FIRST_ARENA)
        self._point()

    @property
    def address(self) -> int:
        """Where the table lies."""
        return self._fields.ctypes.data

    def grow(self) -> None:
        """Make room for four times as many texts, and for texts four times as long."""
        slots, entries, arena = _room_for(4 * len(self._entries), 4 * len(self._arena))
        count, mask = int(self._fields[2]), len(slots) - 1
        entries[:count] = self._entries[:count]
        entries[:count, 0] += arena.ctypes.data - self._arena.ctypes.data
        arena[: len(self._arena)] = self._arena
        for number, value in enumerate(entries[:count, 2].tolist()):
            slot = value & mask
            while slots[slot]:
                slot = (slot + 1) & mask
            slots[slot] = number + 1
        self._slots, self._entries, self._arena = slots, entries, arena
        self._point()

    def texts(self) -> list[bytes]:
        """All texts, by their number."""
        entries = self._entries[: int(self._fields[2])]
        starts = entries[:, 0] - self._arena.ctypes.data
        spans = zip(starts.tolist(), entries[:, 1].tolist(), strict=True)
        return [self._arena[start : start + size].tobytes() for start, size in spans]

    def _point(self) -> None:
        """Renew the addresses and lengths; the counts stay."""
        slots, entries, arena = self._slots, self._entries, self._arena
        self._fields[[0, 1, 3]] = slots.ctypes.data, len(slots) - 1, len(entries)
        self._fields[[4, 5, 7]] = entries.ctypes.data, arena.ctypes.data, len(arena)


def _room_for(
    texts: int, size: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8]]:
    """Empty slots and entries for so many texts, and an arena of so many bytes."""
    return (
        np.zeros(2 * texts, dtype=np.int64),
        np.zeros((texts, _ENTRY), dtype=np.int64),
        np.zeros(size, dtype=np.uint8),
    )
