"""Strings stored one after another as bytes."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from stepwhy.base.columns.growing import Growing

if TYPE_CHECKING:
    from collections.abc import Sequence
    from mmap import mmap

    from numpy.typing import NDArray

    Data = bytes | bytearray | mmap
    Bounds = NDArray[np.unsignedinteger[Any]]
    Places = NDArray[np.int64]

CODE: Final = ("utf-8", "surrogatepass")
"""Encoding of strings; JSON may contain halves of surrogate pairs."""

_NARROW: Final = 1 << 32  # bytes


class Parts(msgspec.Struct, frozen=True):
    """Byte strings inside one block of data.

    Args:
        data: The data.
        begins: First byte of each string; (parts,).
        lengths: Number of bytes of each; (parts,).
    """

    data: Data
    begins: Places
    lengths: Places

    def __getitem__(self, rows: NDArray[np.signedinteger[Any]]) -> Parts:
        """Select strings by row."""
        return Parts(self.data, self.begins[rows], self.lengths[rows])

    def joined(self) -> tuple[NDArray[np.uint8], Places]:
        """The strings concatenated, and their bounds; (bytes,), (parts + 1,)."""
        bounds = np.zeros(len(self.begins) + 1, dtype=np.int64)
        np.cumsum(self.lengths, out=bounds[1:])
        at = np.arange(bounds[-1])
        at += np.repeat(self.begins - bounds[:-1], self.lengths)
        return np.frombuffer(self.data, dtype=np.uint8)[at], bounds

    def are(self, others: Parts) -> NDArray[np.bool_]:
        """Whether each string equals the string of `others` in the same row; (parts,)."""
        same: NDArray[np.bool_] = self.lengths == others.lengths
        candidates = np.flatnonzero(same)
        one, bounds = self[candidates].joined()
        other, _ = others[candidates].joined()
        wrong = np.searchsorted(bounds, np.flatnonzero(one != other), side="right") - 1
        same[candidates[wrong]] = False
        return same

    def texts(self) -> list[str]:
        """The strings, decoded."""
        data, bounds = self.joined()
        return cut(data.tobytes(), bounds)


def parts_between(data: Data, bounds: Bounds) -> Parts:
    """Strings between consecutive bounds; (bounds - 1,)."""
    wide = bounds.astype(np.int64)
    return Parts(data, wide[:-1], np.diff(wide))


def parts_of(texts: Sequence[str]) -> Parts:
    """Encode strings into one block of data."""
    joined = "".join(texts)
    data = joined.encode(*CODE)
    is_ascii = len(data) == len(joined)
    lengths = map(len, texts) if is_ascii else (len(text.encode(*CODE)) for text in texts)
    bounds = np.zeros(len(texts) + 1, dtype=np.uint64)
    np.cumsum(np.fromiter(lengths, dtype=np.uint64, count=len(texts)), out=bounds[1:])
    return parts_between(data, bounds)


def cut(data: Data, bounds: NDArray[np.int64]) -> list[str]:
    """Decode concatenated strings, the first of which starts at byte 0."""
    joined = str(data, *CODE)
    if len(joined) == len(data):
        return [joined[a:b] for a, b in pairwise(bounds.tolist())]
    return [str(data[a:b], *CODE) for a, b in pairwise(bounds.tolist())]


class Packing:
    """Appends strings to one block of data."""

    def __init__(self) -> None:
        self._data, self._bounds = Growing(np.uint8), Growing(np.uint32)
        self._bounds.append(np.zeros(1, dtype=np.uint32))

    def __len__(self) -> int:
        """Number of strings."""
        return len(self._bounds) - 1

    @property
    def data(self) -> Data:
        """The bytes of all strings, followed by zeros."""
        return self._data.memory

    @property
    def bounds(self) -> Bounds:
        """Bounds of all strings; nothing can be added while the array is alive; (strings + 1,)."""
        return self._bounds.values()

    def add(self, texts: Parts) -> None:
        """Append strings that do not overlap in their data."""
        ends = np.cumsum(texts.lengths) + len(self._data)
        is_whole = texts.lengths.sum() == len(texts.data)
        whole = np.frombuffer(texts.data, dtype=np.uint8) if is_whole else texts.joined()[0]
        self._data.append(whole)
        if len(self._data) >= _NARROW and self._bounds.dtype == np.uint32:
            wide = Growing(np.uint64)
            wide.append(self._bounds.values())
            self._bounds = wide
        self._bounds.append(ends)

    def text(self, number: int) -> str:
        """Decode one string."""
        return str(self.data[self._bounds[number] : self._bounds[number + 1]], *CODE)

    def __getitem__(self, numbers: NDArray[np.int32]) -> Parts:
        """Select strings; nothing can be added while they are in use."""
        begins, bounds = self.bounds[numbers].astype(np.int64), self.bounds
        return Parts(self.data, begins, bounds[numbers + 1] - begins)
