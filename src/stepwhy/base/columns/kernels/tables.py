"""Hash tables that compiled kernels fill: ids for texts and for pairs, by first occurrence.

A kernel stops when a table is full; the caller enlarges the table and calls the kernel again.
`stepwhy.base.columns.kernels.numbering` holds the compiled half.
"""

from __future__ import annotations

from secrets import randbits
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from mmap import mmap

    from numpy.typing import NDArray

_ROOM: Final = 1 << 10
_SHORT: Final = 9  # bytes of two words
COUNT, SEED = range(2)
"""Indices of `TableArrays.state`."""


class TableArrays(NamedTuple):
    """A table with open addressing, at most half full, as kernels see it; all int64.

    Args:
        slots: Id plus one, or 0 if the slot is free; (2 * room,).
        entries: By id: position and length of a text, or both numbers of a pair; then its hash.
            (room, 3).
        state: Number of entries, and a random seed, so that no file can be made to contain many
            texts with equal hashes. (2,).
    """

    slots: NDArray[np.int64]
    entries: NDArray[np.int64]
    state: NDArray[np.int64]


# A record, because the compiler assumes that a plain integer is aligned.
_WORD: Final = np.dtype([("word", "<i8")])


def words_of(data: bytes | mmap) -> NDArray[np.void]:
    """The eight bytes from each position of a text on, as field `word`; (len(data) - 7,).

    A text of fewer than nine bytes gives two words of zeros.
    """
    if len(data) < _SHORT:  # an array of one word is contiguous, which is another type for numba
        data = bytes(_SHORT)
    words: NDArray[np.void] = np.ndarray((len(data) - 7,), dtype=_WORD, buffer=data, strides=(1,))
    words.flags.writeable = False
    return words


class _Table:
    """A hash table that grows on request."""

    def __init__(self) -> None:
        empty = np.empty((0, 3), dtype=np.int64)
        self._state = np.array([0, randbits(63)], dtype=np.int64)
        self._entries = empty
        self._resize(_ROOM)

    def __len__(self) -> int:
        return int(self._state[COUNT])

    @property
    def arrays(self) -> TableArrays:
        """The arrays for kernels; valid until the table grows."""
        return TableArrays(self._slots, self._entries, self._state)

    def make_room(self) -> bool:
        """Double the table if it is more than half full; returns whether it was."""
        if 2 * len(self) <= len(self._entries):
            return False
        self._resize(2 * len(self._entries))
        return True

    def _resize(self, room: int) -> None:
        entries = np.empty((room, 3), dtype=np.int64)
        entries[: len(self)] = self._entries[: len(self)]
        self._entries = entries
        self._slots = _slots_of(entries[: len(self), -1], 2 * room)


def _slots_of(hashes: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Put each id plus one into the first free slot from its hash on; (size,)."""
    slots, mask = [0] * size, size - 1
    for number, value in enumerate(hashes.tolist(), start=1):
        slot = value & mask
        while slots[slot]:
            slot = (slot + 1) & mask
        slots[slot] = number
    return np.asarray(slots, dtype=np.int64)


class Texts(_Table):
    """Ids of texts.

    Args:
        data: The file that holds them.
    """

    def __init__(self, data: bytes | mmap) -> None:
        super().__init__()
        self._data = data

    def __getitem__(self, number: int) -> bytes:
        begin, length = self._entries[number, :2].tolist()
        return self._data[begin : begin + length]

    def many(self, numbers: NDArray[Any]) -> list[bytes]:
        """Texts by their ids; (numbers,)."""
        found = self._entries[numbers, :2].tolist()
        return [self._data[begin : begin + length] for begin, length in found]


class Pairs(_Table):
    """Ids of pairs of numbers."""

    def __getitem__(self, number: int) -> tuple[int, int]:
        first, second = self._entries[number, :2].tolist()
        return first, second

    def many(self, numbers: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """First and second numbers of pairs; (numbers,) each."""
        return self._entries[numbers, 0], self._entries[numbers, 1]


__all__ = ["COUNT", "SEED", "Pairs", "TableArrays", "Texts", "words_of"]
