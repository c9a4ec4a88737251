"""Columns to which values are appended."""

from __future__ import annotations

from array import array
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stepwhy.base.columns.chunks import chunks
from stepwhy.base.columns.memory import larger, room
from stepwhy.base.columns.narrow import narrowest

if TYPE_CHECKING:
    import mmap
    from collections.abc import Callable

    from numpy.typing import DTypeLike, NDArray

    from stepwhy.base.columns.types import AnyInts


_FIRST: Final = 1 << 6  # bytes


class Growing:
    """A column of unknown length in one block of memory, which grows in place.

    Concatenating many arrays afterwards would store all values twice and fragment the heap.

    Args:
        dtype: Type of the values.
    """

    def __init__(self, dtype: DTypeLike) -> None:
        self.dtype = np.dtype(dtype)
        self._memory, self._used = room(_FIRST), 0
        self._one = Struct(self.dtype.char)

    def append(self, values: NDArray[Any]) -> None:
        """Append values, converted to the type of the column; (any,)."""
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
        """One value, as a Python object."""
        return self._one.unpack_from(self._memory, row * self.dtype.itemsize)[0]

    def values(self) -> NDArray[Any]:
        """All values, without a copy; nothing can be appended while the array is alive."""
        return np.frombuffer(self._memory, dtype=self.dtype, count=len(self))

    @property
    def memory(self) -> bytearray | mmap.mmap:
        """The buffer, including spare room; nothing can be appended while it is in use."""
        return self._memory


class NarrowColumn:
    """A growing column of integers, in the narrowest type that holds all values so far.

    The sum of two values fits into the type, too (see `narrowest`).

    Args:
        dtype: Narrowest type to use.
    """

    def __init__(self, dtype: DTypeLike = np.int8) -> None:
        self._held = Growing(dtype)

    def __len__(self) -> int:
        """Number of values."""
        return len(self._held)

    def append(self, values: AnyInts) -> None:
        """Append values; (any,)."""
        if len(values):
            dtype = narrowest(int(values.min()), int(values.max()))
            if dtype.itemsize > self._held.dtype.itemsize:
                narrow, self._held = self._held.values(), Growing(dtype)
                for chunk in chunks(len(narrow)):
                    self._held.append(narrow[chunk])
            self._held.append(values)

    def values(self) -> AnyInts:
        """All values, without a copy; nothing can be appended while the array is alive."""
        return self._held.values()


class BufferedColumn:
    """Integers appended one at a time; `flush` moves them into a `NarrowColumn`.

    Args:
        dtype: Narrowest type to use.

    Attributes:
        append: Appends a value.
    """

    def __init__(self, dtype: DTypeLike = np.int8) -> None:
        self._held = NarrowColumn(dtype)
        self._buffer = array("q")
        self.append: Callable[[int], None] = self._buffer.append  # as fast as a list

    def flush(self) -> None:
        """Move the buffered values; to be called about once per chunk of rows."""
        if self._buffer:
            self._held.append(np.frombuffer(self._buffer, dtype=np.int64))
            del self._buffer[:]

    def values(self) -> AnyInts:
        """All values, without a copy; nothing can be flushed while the array is alive."""
        self.flush()
        return self._held.values()
