"""Tables that kernels number texts and pairs with, in the order of their first sight.

`stepwhy.native.kernels.interning` knows their layout. A table grows between two calls of a kernel
that says it is full; its address stays.
"""

from __future__ import annotations

import ctypes
from secrets import randbits
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ROOM: Final = 1 << 10
_ARENA: Final = 1 << 16  # bytes
_WIDTH: Final = 3
_SLOTS, _MASK, _COUNT, _MOST, _ENTRIES, _ARENA_AT, _USED, _ARENA_ROOM, _SEED = range(9)


class _Table:
    """A table with open addressing, at most half full; the last field of an entry is its hash."""

    def __init__(self) -> None:
        self._fields = np.zeros(9, dtype=np.int64)
        self._fields[_SEED] = randbits(63)
        self._entries = np.empty((0, _WIDTH), dtype=np.int64)
        self._resize(_ROOM)

    @property
    def address(self) -> int:
        """Where a kernel finds the table."""
        return int(self._fields.ctypes.data)

    def __len__(self) -> int:
        return int(self._fields[_COUNT])

    def make_room(self) -> bool:
        """Let more entries in, where half of the room is used; whether it was."""
        if 2 * len(self) <= self._fields[_MOST]:
            return False
        self._resize(2 * int(self._fields[_MOST]))
        return True

    def _resize(self, room: int) -> None:
        entries = np.empty((room, _WIDTH), dtype=np.int64)
        entries[: len(self)] = self._entries[: len(self)]
        self._entries, self._slots = entries, _slots_of(entries[: len(self), -1], 2 * room)
        self._fields[_SLOTS] = self._slots.ctypes.data
        self._fields[_MASK] = len(self._slots) - 1
        self._fields[_MOST] = room
        self._fields[_ENTRIES] = entries.ctypes.data


def _slots_of(hashes: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Where each entry is found: its number plus one in the first free slot from its hash on."""
    slots, mask = [0] * size, size - 1
    for number, value in enumerate(hashes.tolist(), start=1):
        slot = value & mask
        while slots[slot]:
            slot = (slot + 1) & mask
        slots[slot] = number
    return np.asarray(slots, dtype=np.int64)


class Texts(_Table):
    """Numbers of texts."""

    def __init__(self) -> None:
        super().__init__()
        self._arenas: list[NDArray[np.uint8]] = []  # entries point into them
        self._add_arena(_ARENA)

    def make_room(self) -> bool:
        """Let more and longer texts in, where half of the room is used; whether it was."""
        grew = super().make_room()
        if 2 * self._fields[_USED] <= self._fields[_ARENA_ROOM]:
            return grew
        self.make_longer()
        return True

    def make_longer(self) -> None:
        """Let texts in that are twice as long as all room that there was."""
        self._add_arena(2 * len(self._arenas[-1]))

    def _add_arena(self, size: int) -> None:
        self._arenas.append(np.empty(size, dtype=np.uint8))
        self._fields[_ARENA_AT] = self._arenas[-1].ctypes.data
        self._fields[_USED], self._fields[_ARENA_ROOM] = 0, size

    def __getitem__(self, number: int) -> bytes:
        address, length = self._entries[number, :2].tolist()
        return ctypes.string_at(address, length)

    def many(self, numbers: NDArray[Any]) -> list[bytes]:
        """Texts by their numbers; (numbers,)."""
        found = self._entries[numbers, :2].tolist()
        return [ctypes.string_at(address, length) for address, length in found]


class Pairs(_Table):
    """Numbers of pairs of numbers."""

    def __getitem__(self, number: int) -> tuple[int, int]:
        first, second = self._entries[number, :2].tolist()
        return first, second

    def many(self, numbers: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """First and second numbers of pairs; (numbers,) each."""
        return self._entries[numbers, 0], self._entries[numbers, 1]
