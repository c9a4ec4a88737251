"""Integers of variable length, compressed.

Source: DWARF 5, section 7.6 (LEB128); Protocol Buffers, "Encoding" (zigzag).
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

# 64 bits in groups of seven.
_MOST_BYTES = 10


def packed(values: NDArray[np.int64]) -> bytes:
    """Integers as LEB128, compressed by zlib.

    Args:
        values: Not negative; (values,).
    """
    return zlib.compress(varints(values), 6)


def varints(values: NDArray[np.int64]) -> bytes:
    """Integers as LEB128: seven bits per byte, lowest first; all but the last have the top bit set.

    Args:
        values: Not negative; (values,).
    """
    left = values.astype(np.uint64)
    length = np.ones(len(left), dtype=np.int64)
    for bits in range(7, 7 * _MOST_BYTES, 7):
        length += left >= np.uint64(1 << bits) if bits < 64 else 0
    end = np.cumsum(length)
    encoded = np.zeros(int(end[-1]) if len(end) else 0, dtype=np.uint8)
    begin = end - length
    for place in range(int(length.max(initial=0))):
        rows = np.flatnonzero(length > place)
        low = (left[rows] & np.uint64(0x7F)).astype(np.uint8)
        low[length[rows] > place + 1] |= 0x80
        encoded[begin[rows] + place] = low
        left[rows] >>= np.uint64(7)
    return encoded.tobytes()


def zigzag(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Signed integers as unsigned ones, small if they are near zero; (values,)."""
    folded: NDArray[np.int64] = (values << 1) ^ (values >> 63)
    return folded
