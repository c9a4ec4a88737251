"""Varints of the wire format, many at a time.

Source: "Encoding" in the Protocol Buffers documentation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import mmap

    from numpy.typing import NDArray

# The bit of each byte that is clear only in the last byte of a varint.
_LAST = np.uint64(0x8080808080808080)
_ONE = np.uint64(1)
# Groups of 7 bits are joined pairwise: the bits that stay, those that move, and how far.
_JOINS = tuple(
    (np.uint64(low), np.uint64(low << shift << bits), np.uint64(shift))
    for low, shift, bits in (
        (0x007F007F007F007F, 1, 7),
        (0x00003FFF00003FFF, 2, 14),
        (0x000000000FFFFFFF, 4, 28),
    )
)
_EXPONENT_OF_ONE = 1023

REACH = 16
"""Minimum distance, in bytes, from a varint to the end of the data for `Wire.varints`."""


class Wire:
    """The bytes of a message, read at many positions at once.

    Args:
        data: The message.
    """

    def __init__(self, data: bytes | mmap.mmap) -> None:
        self.data = data
        padded = data if len(data) >= 2 * REACH else data[:].ljust(2 * REACH, b"\x00")
        self.octets: NDArray[np.uint8] = np.frombuffer(padded, dtype=np.uint8)
        # The eight bytes from every position on, without a copy.
        self._words: NDArray[np.uint64] = np.ndarray(
            len(padded) - 7, dtype="<u8", buffer=padded, strides=(1,)
        )

    def varints(self, at: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Read a varint at every position.

        Args:
            at: Positions, at least `REACH` bytes before the end of the data.

        Returns:
            The values in two's complement, and their lengths in bytes, 0 or less where a varint
            does not end within ten bytes; (positions,) each.
        """
        first = self.octets[at]
        if (first < 0x80).all():  # nearly always true for lengths and ids of statistics
            return first.astype(np.int64), np.ones(len(at), dtype=np.int64)
        word = self._words[at]
        last = ~word & _LAST
        last &= ~last + _ONE  # the lowest of them
        # The exponent of this power of two, read from its float, is 7, 15, 23, ...
        exponent = last.astype(np.float64).view(np.int64) >> 52
        sizes = (exponent - (_EXPONENT_OF_ONE - 1)) >> 3
        word &= (last << _ONE) - _ONE
        word &= ~_LAST
        for stays, moves, shift in _JOINS:
            word = (word & stays) | ((word & moves) >> shift)
        values = word.view(np.int64)
        longer = np.flatnonzero(last == 0)
        if len(longer):
            values[longer], sizes[longer] = self._longer(at[longer], values[longer])
        return values, sizes

    def _longer(
        self, at: NDArray[np.int64], low: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Complete varints of nine or ten bytes, whose first eight were read."""
        ninth, tenth = self.octets[at + 8], self.octets[at + 9]
        is_ten = ninth >= 0x80
        top = np.where(is_ten, tenth, 0).astype(np.uint64)
        high = (ninth & 0x7F).astype(np.uint64) << np.uint64(56) | top << np.uint64(63)
        sizes = np.where(is_ten, np.where(tenth < 2, 10, 0), 9)
        return low | high.view(np.int64), sizes
