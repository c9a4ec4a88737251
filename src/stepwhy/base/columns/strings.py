"""Sequences of strings, packed when there are many: every slice may have its own name."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from operator import index
from typing import TYPE_CHECKING, Any, Final, overload

import numpy as np

from stepwhy.base.columns._packing import CODE, Packing, Parts, cut, parts_between, parts_of
from stepwhy.base.columns.chunks import chunks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from stepwhy.base.columns._packing import Bounds, Data

FEW: Final = 1 << 16
"""Number of strings up to which they are kept in a tuple, which is faster to read."""

# Strings packed or decoded in one call, and strings searched in one call.
_BATCH: Final = 1 << 12
_SEARCHED: Final = 1 << 16
# Largest number of strings that are searched one by one; more are searched in one pass.
_MANY: Final = 1 << 6
_NO_PLACES: Final = np.empty(0, dtype=np.int64)


class Strings(Sequence[str]):
    """Packed sequence of strings.

    Args:
        data: The strings in UTF-8, one after another.
        bounds: First byte of each string, and the end of the last; (strings + 1,).
    """

    __slots__ = ("_bounds", "_data", "_places")

    def __init__(self, data: Data, bounds: Bounds) -> None:
        self._data, self._bounds = data, bounds
        self._places = bounds.data  # indexing it returns Python integers

    def __reduce__(self) -> tuple[type[Strings], tuple[Any, ...]]:
        return Strings, (bytes(self._data[: self._places[-1]]), self._bounds)

    def __len__(self) -> int:
        """Number of strings."""
        return len(self._places) - 1

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[str]: ...
    def __getitem__(self, place: int | slice) -> str | Sequence[str]:
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        at = index(place)
        at = at + len(self) if at < 0 else at
        if not 0 <= at < len(self):
            raise IndexError(f"text {place} of {len(self)}")
        return str(self._data[self._places[at] : self._places[at + 1]], *CODE)

    def __iter__(self) -> Iterator[str]:
        """Iterate over all strings, decoding a few thousand at a time."""
        for batch in chunks(len(self), _BATCH):
            bounds = self._bounds[batch.start : batch.stop + 1].astype(np.int64)
            yield from cut(self._data[int(bounds[0]) : int(bounds[-1])], bounds - bounds[0])

    def __contains__(self, text: object) -> bool:
        return isinstance(text, str) and len(self.where(text)) > 0

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str) or not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self)} texts, {list(islice(self, 3))} ...>"

    def between(self, first: int, last: int) -> bytes:
        """UTF-8 of the strings [first, last), without separators."""
        return bytes(self._data[self._places[first] : self._places[last]])

    def some(self, places: NDArray[np.signedinteger[Any]]) -> list[str]:
        """The strings at the given positions; (places,)."""
        begins = self._bounds[places].astype(np.int64)
        lengths = self._bounds[places + 1].astype(np.int64) - begins
        return Parts(self._data, begins, lengths).texts()

    def where(self, text: str) -> NDArray[np.int64]:
        """Positions of a string, ascending."""
        target = np.frombuffer(text.encode(*CODE), dtype=np.uint8)
        found = (self._where(chunk, target) for chunk in chunks(len(self), _SEARCHED))
        return np.concatenate([_NO_PLACES, *found])

    def where_any(self, texts: Iterable[str]) -> NDArray[np.int64]:
        """Positions of all strings that are in `texts`, ascending."""
        targets = set(texts)
        if len(targets) > _MANY:
            found = [place for place, text in enumerate(self) if text in targets]
            return np.asarray(found, dtype=np.int64)
        places = [self.where(text) for text in targets]
        return np.sort(np.concatenate([_NO_PLACES, *places]))

    def _where(self, chunk: slice, target: NDArray[np.uint8]) -> NDArray[np.int64]:
        parts = parts_between(self._data, self._bounds[chunk.start : chunk.stop + 1])
        data, last = np.frombuffer(self._data, dtype=np.uint8), parts.begins + len(target)
        found = np.flatnonzero(parts.lengths == len(target))
        for back in range(1, len(target) + 1):  # backwards, because names often share prefixes
            found = found[data[last[found] - back] == target[-back]]
        result: NDArray[np.int64] = found + chunk.start
        return result


def strings_from(texts: Iterable[str]) -> Sequence[str]:
    """Return a tuple of strings, or a packed sequence when there are more than `FEW`."""
    left = iter(texts)
    few = tuple(islice(left, FEW))
    batch = list(islice(left, _BATCH))
    if not batch:
        return few
    packing = Packing()
    packing.add(parts_of(few))
    while batch:
        packing.add(parts_of(batch))
        batch = list(islice(left, _BATCH))
    return Strings(packing.data, packing.bounds)


def text_chunks(texts: Sequence[str]) -> Iterator[tuple[int, int, bytes]]:
    """Yield batches of strings: first position, end position, and UTF-8 without separators."""
    for batch in chunks(len(texts), _BATCH):
        if isinstance(texts, Strings):
            yield batch.start, batch.stop, texts.between(batch.start, batch.stop)
        else:
            yield batch.start, batch.stop, "".join(texts[batch]).encode(*CODE)


def texts_at(texts: Sequence[str], places: NDArray[np.signedinteger[Any]]) -> list[str]:
    """The strings at the given positions of a sequence, packed or not; (places,)."""
    if isinstance(texts, Strings):
        return texts.some(places)
    return [texts[place] for place in places.tolist()]
