"""A column that grows at its end."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stepwhy.trace.memory import larger, room

if TYPE_CHECKING:
    import mmap

    from numpy.typing import DTypeLike, NDArray

_FIRST: Final = 1 << 6  # bytes


class Growing:
    """A column of unknown length, in one piece of memory.

    Parts that are joined in the end would be held twice, and small ones leave holes behind that
    nothing larger fits into; what grows in place does neither.

    Args:
        dtype: Its type.
    """

    def __init__(self, dtype: DTypeLike) -> None:
        self.dtype = np.dtype(dtype)
        self._memory, self._used = room(_FIRST), 0
        self._one = Struct(self.dtype.char)

    def append(self, values: NDArray[Any]) -> None:
        """Add values at the end; (any,), converted to the type."""
        added = np.ascontiguousarray(values, dtype=self.dtype).view(np.uint8)
        end = self._used + len(added)
        if end > len(self._memory):
            self._memory = larger(self._memory, max(end, 2 * len(self._memory)))
        self._memory[self._used : end] = added.data
        self._used = end

    def __len__(self) -> int:
        """Number of values."""
        return self._used // self.dtype.itemsize

    def __getitem__(self, row: int) -> Any:
        """One of them, as an object of Python's."""
        return self._one.unpack_from(self._memory, row * self.dtype.itemsize)[0]

    def values(self) -> NDArray[Any]:
        """All of them, without a copy; nothing can be added while they are held."""
        return np.frombuffer(self._memory, dtype=self.dtype, count=len(self))

    @property
    def memory(self) -> bytearray | mmap.mmap:
        """What holds them, and has room behind them; nothing can be added while it is in use."""
        return self._memory
