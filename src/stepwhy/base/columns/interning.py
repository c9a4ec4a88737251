"""Interning: consecutive numbers for strings, integers and other objects."""

from __future__ import annotations

from functools import partial
from itertools import islice, repeat
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stepwhy.base.columns._packing import Packing, Parts, parts_of
from stepwhy.base.columns._slots import Slots
from stepwhy.base.columns.growing import Growing
from stepwhy.base.columns.strings import FEW, Strings

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from numpy.typing import NDArray

    Numbers = NDArray[np.int32]

# Strings packed in one call, because every call has a fixed cost.
_BATCH: Final = 1 << 12
_UNKNOWN: Final = -1
_HASH: Final = (1 << 32) - 1
# 2**64 divided by the golden ratio (Fibonacci hashing): consecutive keys get distant slots.
_FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)


class Interner:
    """Numbers strings in the order in which they are first looked up.

    The first `FEW` strings, more than an ordinary trace has, are kept in a dictionary. All others
    are packed: each takes 20 bytes more than its text, where a dictionary entry takes 150.

    Args:
        texts: Strings that get the first numbers.
    """

    def __init__(self, texts: Sequence[str] = ()) -> None:
        self._known = _Known()
        self.numbers(texts)

    def __len__(self) -> int:
        """Number of distinct strings."""
        return self._known.count()

    def number(self, text: str) -> int:
        """Number of a string."""
        return self._known[text]

    def numbers(self, texts: Sequence[str]) -> Numbers:
        """Numbers of many strings; (strings,)."""
        known = self._known
        if len(known) < FEW:
            return np.fromiter(map(known.__getitem__, texts), dtype=np.int32, count=len(texts))
        numbers = np.fromiter(map(known.get, texts, repeat(_UNKNOWN)), np.int32, len(texts))
        other = np.flatnonzero(numbers == _UNKNOWN)
        if len(other):
            numbers[other] = known.packed().numbers([texts[i] for i in other.tolist()])
        return numbers

    def strings(self) -> Sequence[str]:
        """All strings by number; adding more afterwards costs a copy."""
        return self._known.strings()


class _Known(dict[str, int]):
    """Dictionary of the first strings; looks up all others in `_PackedStrings`."""

    def __init__(self) -> None:
        super().__init__()
        self._others: _PackedStrings | None = None
        self._strings: Strings | None = None

    def __missing__(self, text: str) -> int:
        """Number of a string that is not in the dictionary; a new string gets the next number."""
        if len(self) < FEW:
            number = self[text] = len(self)
            return number
        return self.packed().number(text)

    def count(self) -> int:
        """Number of distinct strings, packed ones included."""
        packed = self._strings if self._others is None else self._others
        return len(self) if packed is None else len(packed)

    def packed(self) -> _PackedStrings:
        """The packed strings, which include those of the dictionary."""
        if self._others is None:
            self._others = _PackedStrings(self if self._strings is None else self._strings)
            self._strings = None
        return self._others

    def strings(self) -> Sequence[str]:
        """All strings; frees the hash table of the packed ones."""
        if self._others is not None:
            self._strings, self._others = self._others.finish(), None
        return tuple(self) if self._strings is None else self._strings


class _PackedStrings:
    """Interns strings into packed memory.

    Args:
        texts: Distinct strings that get the first numbers.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts, self._hashes, self._slots = Packing(), Growing(np.uint32), Slots()
        self._new: dict[str, int] = {}  # not packed yet
        self._count = 0
        left = iter(texts)
        while batch := list(islice(left, _BATCH)):
            self._add(batch)

    def __len__(self) -> int:
        """Number of distinct strings."""
        return self._count

    def number(self, text: str) -> int:
        """Number of a string."""
        number = self._new.get(text, _UNKNOWN)
        if number == _UNKNOWN:
            number = self._find(text)
        if number == _UNKNOWN:
            if len(self._new) >= _BATCH:
                self._pack_new()
            number = self._new[text] = self._count
            self._count += 1
        return number

    def numbers(self, texts: Sequence[str]) -> Numbers:
        """Numbers of many strings; (strings,)."""
        self._pack_new()
        different = dict.fromkeys(texts)
        numbers = self._add(list(different))
        if len(different) == len(texts):
            return numbers
        number_of = dict(zip(different, numbers.tolist(), strict=True))
        return np.fromiter(map(number_of.__getitem__, texts), dtype=np.int32, count=len(texts))

    def finish(self) -> Strings:
        """All strings; nothing may be added afterwards."""
        self._pack_new()
        return Strings(self._texts.data, self._texts.bounds)

    def _find(self, text: str) -> int:
        """Number of a packed string, `_UNKNOWN` for any other."""
        hashed = hash(text) & _HASH
        for number in self._slots.from_hash(hashed):
            if self._hashes[number] == hashed and self._texts.text(number) == text:
                return number
        return _UNKNOWN

    def _pack_new(self) -> None:
        if self._new:
            new, self._new = list(self._new), {}
            self._count -= len(new)
            self._add(new)

    def _add(self, texts: list[str]) -> Numbers:
        """Numbers of distinct strings; (strings,)."""
        hashes = np.fromiter(map(hash, texts), dtype=np.int64, count=len(texts)).astype(np.uint32)
        parts, count = parts_of(texts), self._count
        numbers, places = self._slots.find(hashes, partial(self._are, parts, hashes))
        new = np.flatnonzero(numbers < 0)
        numbers[new] = np.arange(count, count + len(new), dtype=np.int32)
        self._count += len(new)
        self._texts.add(parts[new])
        self._hashes.append(hashes[new])
        if not self._slots.grow(self._count, lambda some: self._hashes.values()[some]):
            self._slots.put(numbers[new], places[new])
        return numbers

    def _are(
        self, parts: Parts, hashes: NDArray[np.uint32], numbers: Numbers, at: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Whether strings, by number, equal strings of `parts`, by position; (numbers,)."""
        same: NDArray[np.bool_] = self._hashes.values()[numbers] == hashes[at]
        candidates = np.flatnonzero(same)
        same[candidates] = self._texts[numbers[candidates]].are(parts[at[candidates]])
        return same


class Codes(dict[Any, int]):
    """Numbers objects in the order in which they are first looked up."""

    def __missing__(self, key: Hashable) -> int:
        """The next number."""
        code = self[key] = len(self)
        return code

    def of(self, keys: Iterable[Hashable], count: int) -> NDArray[np.int32]:
        """Numbers of many objects; (count,)."""
        return np.fromiter(map(self.__getitem__, keys), dtype=np.int32, count=count)


class KeyCodes:
    """Numbers integers in the order in which they are first looked up, without Python objects."""

    def __init__(self) -> None:
        self._slots, self._keys = Slots(), Growing(np.int64)

    def __len__(self) -> int:
        """Number of distinct keys."""
        return len(self._keys)

    def keys(self) -> NDArray[np.int64]:
        """All keys by number; none can be added while the array is alive."""
        return self._keys.values()

    def of(self, keys: NDArray[np.int64]) -> NDArray[np.int32]:
        """Numbers of distinct keys; (keys,)."""
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
