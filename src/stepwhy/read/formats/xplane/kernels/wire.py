"""Reads varints of the wire format in compiled code.

Positions are int64. No function reads a byte at or after `end`, except that eight bytes can be read
from every position before `safe`.

Source: "Encoding" in the Protocol Buffers documentation.
"""

import numpy as np
from numba import njit

from stepwhy.base.columns.kernels.numbering import INLINE, PLAIN, word_at

_MORE = 0x80
# The bit of each byte that is clear only in the last byte of a varint.
_LAST = 0x8080808080808080 - (1 << 64)
# Groups of 7 bits are joined pairwise: the bits that stay, and those that move.
_LOW_7, _HIGH_7 = 0x007F007F007F007F, 0x7F007F007F007F00
_LOW_14, _HIGH_14 = 0x00003FFF00003FFF, 0x3FFF00003FFF0000
_LOW_28, _HIGH_28 = 0x000000000FFFFFFF, 0x0FFFFFFF00000000


_ONES = 0x0101010101010101


@njit(**INLINE)
def byte_at(wire, at):
    """The byte at a position."""
    return np.int64(wire.octets[np.uint64(at)])


@njit(**PLAIN)
def _byte_by_byte(wire, at, end):
    value = 0
    for shift in range(0, 70, 7):
        if at >= end:
            return 0, -1
        part = byte_at(wire, at)
        at += 1
        if shift == 63 and part > 1:
            return 0, -1
        value |= (part & 0x7F) << shift
        if part < _MORE:
            return value, at
    return 0, -1


@njit(**INLINE)
def varint(wire, at, end, safe):
    """A varint in two's complement, and the position after it; -1 if none ends by `end`."""
    if at >= end:
        return 0, -1
    first = byte_at(wire, at)
    if first < _MORE:
        return first, at + 1
    if at >= safe:
        return _byte_by_byte(wire, at, end)
    word = word_at(wire.words, at)
    stops = ~word & _LAST
    if stops == 0:
        return _byte_by_byte(wire, at, end)
    # The lowest set bit is the highest bit of the last byte: count the bytes up to it.
    after = at + (((((stops - 1) & ~stops) & _ONES) * _ONES >> 56) & 0xFF)
    if after > end:
        return 0, -1
    word &= (stops ^ (stops - 1)) & ~_LAST
    word = (word & _LOW_7) | ((word & _HIGH_7) >> 1)
    word = (word & _LOW_14) | ((word & _HIGH_14) >> 2)
    word = (word & _LOW_28) | ((word & _HIGH_28) >> 4)
    return word, after
