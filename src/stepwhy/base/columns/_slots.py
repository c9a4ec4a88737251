"""Hash table from hashes to numbers, without a Python object per entry."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.base.columns.chunks import chunks
from stepwhy.base.columns.memory import empty

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    Numbers = NDArray[np.int32]
    Hashes = NDArray[np.uint32]
    Places = NDArray[np.int64]

_FREE = -1
_BITS = 32


class Slots:
    """Hash table with open addressing: a slot holds a number, or is negative when it is free.

    At most half of the slots are in use. The highest bits of a hash select its first slot, so
    these bits must be well mixed.
    """

    def __init__(self) -> None:
        self._make(1 << 4)

    def _make(self, size: int) -> None:
        self._slots = empty(size, np.int32)
        self._slots.fill(_FREE)
        self._view = self._slots.data  # indexing it returns Python integers
        self._shift = _BITS + 1 - size.bit_length()

    def find(
        self, hashes: Hashes, same: Callable[[Numbers, Places], NDArray[np.bool_]]
    ) -> tuple[Numbers, Places]:
        """Look up keys: their numbers, negative for unknown ones, and the slot of each.

        Args:
            hashes: Hashes of the keys; (keys,).
            same: Whether the keys of the given numbers equal those at positions in `hashes`.
        """
        numbers = np.full(len(hashes), _FREE, dtype=np.int32)
        places, left = self._home(hashes), np.arange(len(hashes))
        while len(left):
            numbers[left] = found = self._slots[places[left]]
            other = found >= 0
            other[other] = ~same(found[other], left[other])
            left = left[other]
            places[left] = (places[left] + 1) & (len(self._slots) - 1)
        return numbers, places

    def from_hash(self, hashed: int) -> Iterator[int]:
        """Numbers of all keys that may have the given hash."""
        place = hashed >> self._shift
        while (number := self._view[place]) >= 0:
            yield number
            place = (place + 1) & (len(self._view) - 1)

    def put(self, numbers: Numbers, places: Places) -> None:
        """Store numbers in the slots that `find` returned, or in the next free ones."""
        while len(numbers):
            free = self._slots[places] < 0
            self._slots[places[free]] = numbers[free]
            left = self._slots[places] != numbers  # only one of several gets a slot
            numbers, places = numbers[left], (places[left] + 1) & (len(self._slots) - 1)

    def grow(self, count: int, hashes: Callable[[slice], Hashes]) -> bool:
        """Enlarge the table if it is too small, and store all numbers again; whether it did.

        Args:
            count: Number of keys; their numbers start at 0.
            hashes: Returns the hashes of a slice of the keys.
        """
        size = len(self._slots)
        while size < 2 * count:
            size *= 2
        if size == len(self._slots):
            return False
        del self._slots, self._view  # frees the old table first
        self._make(size)
        for chunk in chunks(count):
            numbers = np.arange(chunk.start, chunk.stop, dtype=np.int32)
            self.put(numbers, self._home(hashes(chunk)))
        return True

    def _home(self, hashes: Hashes) -> Places:
        """First slot of each hash."""
        return (hashes >> np.uint32(self._shift)).astype(np.int64)
