"""Numbers for things that repeat in the records of a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepwhy.trace.growing import Growing

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from numpy.typing import NDArray


# Numbers that are looked at at a time.
_PIECE = 1 << 16
_FREE = -1
# 2**64 by the golden ratio: neighbours get slots that are far from each other.
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


class Codes(dict[Any, int]):
    """Numbers things in the order of their first sight."""

    def __missing__(self, key: Hashable) -> int:
        """The next number."""
        code = self[key] = len(self)
        return code

    def of(self, keys: Iterable[Hashable], count: int) -> NDArray[np.int32]:
        """Numbers of many things; (count,)."""
        return np.fromiter(map(self.__getitem__, keys), dtype=np.int32, count=count)


class KeyCodes:
    """Numbers integers in the order in which they come, without an object for each.

    A table with open addressing: a slot holds the number of a key, and is negative where it is
    free. At most half of them are taken.
    """

    def __init__(self) -> None:
        self._slots = np.full(1 << 4, _FREE, dtype=np.int32)
        self._keys = Growing(np.int64)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._keys)

    def keys(self) -> NDArray[np.int64]:
        """All of them, by their numbers; nothing can be added while they are held."""
        return self._keys.values()

    def of(self, keys: NDArray[np.int64]) -> NDArray[np.int32]:
        """Numbers of different keys; (keys,)."""
        numbers, slots = self._found(keys)
        new = np.flatnonzero(numbers < 0)
        count = len(self)
        numbers[new] = np.arange(count, count + len(new), dtype=np.int32)
        self._keys.append(keys[new])
        if 2 * len(self) > len(self._slots):
            self._grow()
        else:
            self._put(numbers[new], slots[new])
        return numbers

    def _found(self, keys: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Numbers of keys, negative where they have none, and where each is or would be."""
        numbers = np.full(len(keys), _FREE, dtype=np.int32)
        slots, known = self._home(keys), self.keys()
        left = np.arange(len(keys))
        while len(left):
            numbers[left] = found = self._slots[slots[left]]
            other = found >= 0
            other[other] = known[found[other]] != keys[left[other]]
            left = left[other]
            slots[left] = (slots[left] + 1) & (len(self._slots) - 1)
        return numbers, slots

    def _put(self, numbers: NDArray[np.int32], slots: NDArray[np.int64]) -> None:
        """Put numbers into their slots or, where these are taken, the next ones."""
        while len(numbers):
            free = self._slots[slots] < 0
            self._slots[slots[free]] = numbers[free]
            left = self._slots[slots] != numbers  # of several for one slot, one is there
            numbers, slots = numbers[left], (slots[left] + 1) & (len(self._slots) - 1)

    def _grow(self) -> None:
        self._slots = np.full(2 * len(self._slots), _FREE, dtype=np.int32)
        keys = self.keys()
        if 2 * len(keys) > len(self._slots):
            self._grow()
            return
        for begin in range(0, len(keys), _PIECE):
            some = keys[begin : begin + _PIECE]
            self._put(np.arange(begin, begin + len(some), dtype=np.int32), self._home(some))

    def _home(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """The slot in which to look for each first."""
        mixed = keys.view(np.uint64) * _FACTOR
        mixed >>= np.uint64(65 - len(self._slots).bit_length())
        return mixed.view(np.int64)


def first_seen(codes: NDArray[np.int32], count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Numbers below `count` that occur, in the order of their first sight, and where that is."""
    first = np.full(count, len(codes), dtype=np.int64)
    for begin in reversed(range(0, len(codes), _PIECE)):
        # Of several values that are put in one place, the last stays.
        some = codes[begin : begin + _PIECE]
        first[some[::-1]] = np.arange(begin + len(some) - 1, begin - 1, -1)
    order = np.argsort(first, kind="stable")[: int((first < len(codes)).sum())]
    return order, first[order]
