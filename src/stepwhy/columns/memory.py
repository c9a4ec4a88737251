"""Memory of the process: what is freed shall be given back to the system, and soon.

Where the heap holds large arrays, those that grow leave holes behind, and so do those that are
freed below others.
"""

from __future__ import annotations

import mmap
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

LARGE: Final = 1 << 20
"""Bytes from which on memory lies outside of the heap."""

# Private, for what is shared cannot become larger. Not on every system.
_FLAGS: Final = (
    {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
)


def room(size: int) -> bytearray | mmap.mmap:
    """Zeros; pages that are not written to take no memory.

    Args:
        size: How many bytes.
    """
    return bytearray(size) if size < LARGE else mmap.mmap(-1, size, **_FLAGS)


def larger(memory: bytearray | mmap.mmap, size: int) -> bytearray | mmap.mmap:
    """The same memory with zeros behind it.

    Args:
        memory: It may not be used any more.
        size: How many bytes.

    Raises:
        BufferError: It is held by somebody.
    """
    if isinstance(memory, mmap.mmap):
        with suppress(SystemError):  # not on every system
            memory.resize(size)
            return memory
    found = room(size)
    found[: len(memory)] = memory[:]
    return found


def empty(count: int, dtype: DTypeLike) -> NDArray[Any]:
    """An array to be written to, as `np.empty`; (count,)."""
    size = count * np.dtype(dtype).itemsize
    return np.empty(count, dtype) if size < LARGE else np.frombuffer(room(size), dtype)


def give_back() -> None:
    """Give freed memory back to the system, also what lies between pieces that are held."""
    import ctypes  # noqa: PLC0415 - NumPy has imported it

    with suppress(AttributeError, OSError, TypeError):  # not on every system
        ctypes.CDLL(None).malloc_trim(0)


__all__ = ["LARGE", "empty", "give_back", "larger", "room"]
