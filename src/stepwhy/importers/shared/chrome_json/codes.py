"""Numbers for things that repeat in the records of a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepwhy.trace.growing import Growing
from stepwhy.trace.order import taken
from stepwhy.trace.slots import Slots

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from numpy.typing import NDArray


# Numbers that are looked at at a time.
_PIECE = 1 << 16
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
    """Numbers integers in the order in which they come, without an object for each."""

    def __init__(self) -> None:
        self._slots, self._keys = Slots(), Growing(np.int64)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._keys)

    def keys(self) -> NDArray[np.int64]:
        """All of them, by their numbers; nothing can be added while they are held."""
        return self._keys.values()

    def of(self, keys: NDArray[np.int64]) -> NDArray[np.int32]:
        """Numbers of different keys; (keys,)."""
        numbers, places = self._slots.find(
            _hashes(keys), lambda found, at: self.keys()[found] == keys[at]
        )
        new = np.flatnonzero(numbers < 0)
        numbers[new] = np.arange(len(self), len(self) + len(new), dtype=np.int32)
        self._keys.append(keys[new])
        if not self._slots.grow(len(self), lambda some: _hashes(self.keys()[some])):
            self._slots.put(numbers[new], places[new])
        return numbers


def _hashes(keys: NDArray[np.int64]) -> NDArray[np.uint32]:
    mixed = keys.view(np.uint64) * _FACTOR
    mixed >>= np.uint64(32)
    return mixed.astype(np.uint32)


def first_seen(codes: NDArray[np.int32], count: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Numbers below `count` that occur, in the order of their first sight, and where that is."""
    first = np.empty(count, dtype=np.int32)
    pieces = [codes[begin : begin + _PIECE] for begin in range(0, len(codes), _PIECE)]
    for number, piece in reversed(list(enumerate(pieces))):
        # Of several values that are put in one place, the last stays.
        last = number * _PIECE + len(piece) - 1
        first[piece[::-1]] = np.arange(last, last - len(piece), -1, dtype=np.int32)
    places = Growing(np.int32)
    for number, piece in enumerate(pieces):
        is_first = taken(first, piece) == np.arange(len(piece), dtype=np.int32) + number * _PIECE
        places.append(np.flatnonzero(is_first) + number * _PIECE)
    return taken(codes, places.values()), places.values()
