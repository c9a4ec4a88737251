"""Varints of the wire format, for kernels.

Everything is an address as int64. Nothing is read at `end` or behind it, but that eight bytes can
be read from every address before `safe`.

Source: "Encoding" in the Protocol Buffers documentation.
"""

from numba import njit

from stepwhy.native.memory import byte_at, trailing_zeros, word_at

FAST = {"error_model": "numpy", "nogil": True}
INLINE = {**FAST, "forceinline": True}
"""Of functions that take less time than it takes to call them."""

_MORE = 0x80
_LAST = 0x8080808080808080 - (1 << 64)  # of every byte the bit that is clear in a varint's last
# Groups of 7 bits are brought together pairwise: what stays, and what moves.
_LOW_7, _HIGH_7 = 0x007F007F007F007F, 0x7F007F007F007F00
_LOW_14, _HIGH_14 = 0x00003FFF00003FFF, 0x3FFF00003FFF0000
_LOW_28, _HIGH_28 = 0x000000000FFFFFFF, 0x0FFFFFFF00000000


@njit(**FAST)
def _byte_by_byte(at, end):
    value = 0
    for shift in range(0, 70, 7):
        if at >= end:
            return 0, -1
        part = byte_at(at)
        at += 1
        if shift == 63 and part > 1:
            return 0, -1
        value |= (part & 0x7F) << shift
        if part < _MORE:
            return value, at
    return 0, -1


@njit(**INLINE)
def varint(at, end, safe):
    """A varint in two's complement and the address behind it, -1 where none ends before `end`."""
    if at >= end:
        return 0, -1
    first = byte_at(at)
    if first < _MORE:
        return first, at + 1
    if at >= safe:
        return _byte_by_byte(at, end)
    word = word_at(at)
    stops = ~word & _LAST
    if stops == 0:
        return _byte_by_byte(at, end)
    after = at + (trailing_zeros(stops) >> 3) + 1
    if after > end:
        return 0, -1
    word &= (stops ^ (stops - 1)) & ~_LAST
    word = (word & _LOW_7) | ((word & _HIGH_7) >> 1)
    word = (word & _LOW_14) | ((word & _HIGH_14) >> 2)
    word = (word & _LOW_28) | ((word & _HIGH_28) >> 4)
    return word, after
