"""Memory outside of the heap, which returns to the operating system as soon as it is freed.

Large arrays inside the heap leave holes when they grow or are freed.
"""

from __future__ import annotations

import mmap
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

LARGE: Final = 1 << 20
"""Smallest block, in bytes, that lies outside of the heap."""

# Only private mappings can be enlarged. The flags do not exist on every system.
_FLAGS: Final = (
    {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
)


def room(size: int) -> bytearray | mmap.mmap:
    """Return zeroed memory; pages take no memory until they are written to.

    Args:
        size: Number of bytes.
    """
    return bytearray(size) if size < LARGE else mmap.mmap(-1, size, **_FLAGS)


def larger(memory: bytearray | mmap.mmap, size: int) -> bytearray | mmap.mmap:
    """Enlarge a block of memory; the new bytes are zero.

    Args:
        memory: The memory, which must not be used afterwards.
        size: New number of bytes.

    Raises:
        BufferError: An array still uses the memory.
    """
    if isinstance(memory, mmap.mmap):
        with suppress(SystemError):  # not on every system
            memory.resize(size)
            return memory
    found = room(size)
    found[: len(memory)] = memory[:]
    return found


def empty(count: int, dtype: DTypeLike) -> NDArray[Any]:
    """Return an uninitialised array, as `np.empty` does; (count,)."""
    size = count * np.dtype(dtype).itemsize
    return np.empty(count, dtype) if size < LARGE else np.frombuffer(room(size), dtype)


# Fewest rows whose temporary columns are worth the call.
_MANY_ROWS: Final = 1 << 19


def give_back_after(rows: int) -> None:
    """Return free memory inside the heap to the system, after work on many rows.

    Args:
        rows: Number of rows of the columns that were freed.
    """
    if rows >= _MANY_ROWS:
        give_back()


def give_back() -> None:
    """Return free memory inside the heap to the system."""
    import ctypes  # noqa: PLC0415 - NumPy has imported it

    with suppress(AttributeError, OSError, TypeError):  # not on every system
        ctypes.CDLL(None).malloc_trim(0)
