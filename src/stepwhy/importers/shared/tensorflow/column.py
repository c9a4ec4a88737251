"""A column of integers, held in as few bits as they need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepwhy.importers.shared.chrome_json import Growing
from stepwhy.importers.shared.tensorflow.distinct import pieces
from stepwhy.trace.narrow import narrowest

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    Ints = NDArray[np.signedinteger[Any]]


class Column:
    """Integers of at most 64 bits that grow at their end; all have as many bits as the widest.

    They are as wide as the columns of a trace: sums of two of them fit.

    Args:
        dtype: The type of them, where it is not to be that of the values.
    """

    def __init__(self, dtype: DTypeLike = np.int8) -> None:
        self._held = Growing(dtype)

    def __len__(self) -> int:
        """Number of values."""
        return len(self._held)

    def append(self, values: Ints) -> None:
        """Add values at the end; (any,)."""
        if len(values):
            self._widen(narrowest(int(values.min()), int(values.max())))
            self._held.append(values)

    def values(self) -> Ints:
        """All of them, without a copy; nothing can be added while they are held."""
        return self._held.values()

    def _widen(self, dtype: np.dtype[Any]) -> None:
        """Make room for values of a type."""
        if dtype.itemsize > self._held.dtype.itemsize:
            narrow, self._held = self._held.values(), Growing(dtype)
            for piece in pieces(len(narrow)):
                self._held.append(narrow[piece])


__all__ = ["Column"]
