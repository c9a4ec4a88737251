"""Numbers for what records are called: there may be as many as records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepwhy.columns.interning import Interner
from stepwhy.importers.formats.kineto.codes import Codes, first_sights
from stepwhy.importers.shared.chrome_json import KeyCodes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

_NAME_BITS: Final = 32

Title = tuple[str, str]
"""Category and name of a record."""


class Titles:
    """Numbers titles."""

    def __init__(self) -> None:
        self._categories, self._names, self._keys = Codes(), Interner(), KeyCodes()
        self._new: list[Title] = []

    def __len__(self) -> int:
        """How many there are."""
        return len(self._keys)

    def of(self, titles: Iterable[Title], count: int) -> NDArray[np.int32]:
        """Numbers of many titles; (count,)."""
        told = list(titles)
        categories = self._categories.of((category for category, _ in told), count)
        names = self._names.numbers([name for _, name in told])
        keys = categories.astype(np.int64) << _NAME_BITS | names
        first = first_sights(keys)
        different, known = keys[first], len(self)
        numbers = self._keys.of(different)
        self._new += [told[i] for i in first[numbers >= known].tolist()]
        return numbers[np.searchsorted(different, keys)]

    def new(self) -> list[Title]:
        """Those that got a number since the last call, by their numbers."""
        new, self._new = self._new, []
        return new


__all__ = ["Titles"]
