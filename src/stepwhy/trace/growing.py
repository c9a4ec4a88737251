"""A column that grows at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray


class Growing:
    """A column of unknown length, in one piece of memory.

    Parts that are joined in the end would be held twice, and small ones leave holes behind that
    nothing larger fits into; what grows in place does neither.

    Args:
        dtype: Its type.
    """

    def __init__(self, dtype: DTypeLike) -> None:
        self.dtype = np.dtype(dtype)
        self._bytes = bytearray()

    def append(self, values: NDArray[Any]) -> None:
        """Add values at the end; (any,), converted to the type."""
        self._bytes += np.ascontiguousarray(values, dtype=self.dtype).view(np.uint8).data

    def __len__(self) -> int:
        """Number of values."""
        return len(self._bytes) // self.dtype.itemsize

    def values(self) -> NDArray[Any]:
        """All of them, without a copy; nothing can be added while they are held."""
        return np.frombuffer(self._bytes, dtype=self.dtype)
