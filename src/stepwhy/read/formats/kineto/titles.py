"""Integer codes for titles (category and name); a file may have as many titles as records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepwhy.base.columns.groups import first_rows
from stepwhy.base.columns.interning import Interner
from stepwhy.read.formats.kineto.codes import Codes
from stepwhy.read.shared.chrome_json import KeyCodes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

_NAME_BITS: Final = 32

Title = tuple[str, str]
"""Category and name of a record."""


class Titles:
    """Assigns a code to each distinct title."""

    def __init__(self) -> None:
        self._categories, self._names, self._keys = Codes(), Interner(), KeyCodes()
        self._new: list[Title] = []

    def __len__(self) -> int:
        """Number of distinct titles."""
        return len(self._keys)

    def of(self, titles: Iterable[Title], count: int) -> NDArray[np.int32]:
        """Codes of many titles; (count,)."""
        titles = list(titles)
        categories = self._categories.of((category for category, _ in titles), count)
        names = self._names.numbers([name for _, name in titles])
        keys = categories.astype(np.int64) << _NAME_BITS | names
        first = first_rows(keys)
        distinct, known = keys[first], len(self)
        codes = self._keys.of(distinct)
        self._new += [titles[i] for i in first[codes >= known].tolist()]
        return codes[np.searchsorted(distinct, keys)]

    def pop_new(self) -> list[Title]:
        """Titles that got a code since the last call, by ascending code."""
        new, self._new = self._new, []
        return new


__all__ = ["Titles"]
