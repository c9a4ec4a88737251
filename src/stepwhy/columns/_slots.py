"""Where numbers are found by the hashes of what they stand for, without an object for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.columns.memory import empty

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    Numbers = NDArray[np.int32]
    Hashes = NDArray[np.uint32]
    Places = NDArray[np.int64]

# Numbers that are looked at at a time.
_PIECE = 1 << 16
_FREE = -1
_BITS = 32


class Slots:
    """A table with open addressing: a slot holds a number, and is negative where it is free.

    At most half of them are taken. The highest bits of a hash say where to look first, so that
    these have to differ.
    """

    def __init__(self) -> None:
        self._make(1 << 4)

    def _make(self, size: int) -> None:
        self._slots = empty(size, np.int32)
        self._slots.fill(_FREE)
        self._view = self._slots.data  # gives integers of Python's
        self._shift = _BITS + 1 - size.bit_length()

    def find(
        self, hashes: Hashes, same: Callable[[Numbers, Places], NDArray[np.bool_]]
    ) -> tuple[Numbers, Places]:
        """Numbers of things, negative where they have none, and where each is or would be.

        Args:
            hashes: Their hashes; (things,).
            same: Whether what numbers stand for are the things at some places of `hashes`.
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
        """Numbers among which that of a thing is, if it has one."""
        place = hashed >> self._shift
        while (number := self._view[place]) >= 0:
            yield number
            place = (place + 1) & (len(self._view) - 1)

    def put(self, numbers: Numbers, places: Places) -> None:
        """Put numbers where `find` would have found them, or in the next slots that are free."""
        while len(numbers):
            free = self._slots[places] < 0
            self._slots[places[free]] = numbers[free]
            left = self._slots[places] != numbers  # of several for one slot, one is there
            numbers, places = numbers[left], (places[left] + 1) & (len(self._slots) - 1)

    def grow(self, count: int, hashes: Callable[[slice], Hashes]) -> bool:
        """Make room for as many numbers as there are, and put them in; whether that was needed.

        Args:
            count: How many numbers there are, from 0 on.
            hashes: The hashes of some of them.
        """
        size = len(self._slots)
        while size < 2 * count:
            size *= 2
        if size == len(self._slots):
            return False
        del self._slots, self._view  # not held twice
        self._make(size)
        for begin in range(0, count, _PIECE):
            end = min(begin + _PIECE, count)
            numbers = np.arange(begin, end, dtype=np.int32)
            self.put(numbers, self._home(hashes(slice(begin, end))))
        return True

    def _home(self, hashes: Hashes) -> Places:
        """The slot in which to look for each first."""
        return (hashes >> np.uint32(self._shift)).astype(np.int64)


__all__ = ["Slots"]
