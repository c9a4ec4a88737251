"""The median of more durations than are to be held at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    Pieces = Callable[[], Iterable[NDArray[np.int64]]]

# Values are told apart by so many bits at a time, the highest first.
_DIGIT = 16
_BITS = 64
# So many are held: going through all pieces several times takes longer.
_FEW = 1 << 20


def median_of(pieces: Pieces) -> int | None:
    """As `int(np.median(...))` of values that come in pieces; None without any.

    Args:
        pieces: Gives all values, none below zero, again each time that it is called.
    """
    sizes = [(len(values), int(values.max(initial=0))) for values in pieces()]
    count, most = sum(size for size, _ in sizes), max((top for _, top in sizes), default=0)
    if not count:
        return None
    middle = (count - 1) // 2, count // 2
    if count <= _FEW:
        every = np.partition(np.concatenate(list(pieces())), middle)
        found = {rank: int(every[rank]) for rank in middle}
    else:
        found = {rank: _at(pieces, rank, most) for rank in set(middle)}
    return int((float(found[middle[0]]) + float(found[middle[1]])) / 2)


def _at(pieces: Pieces, rank: int, most: int) -> int:
    """The value with so many before it in order.

    Args:
        pieces: All values.
        rank: How many.
        most: The largest value.
    """
    found = 0
    for shift in range(_BITS - _DIGIT, -1, -_DIGIT):
        if most >> shift:
            counts = _digits(pieces, found, shift)
            digit = int(np.searchsorted(np.cumsum(counts), rank, side="right"))
            rank -= int(counts[:digit].sum())
            found = found << _DIGIT | digit
    return found


def _digits(pieces: Pieces, above: int, shift: int) -> NDArray[np.int64]:
    """How many values have each digit at a place, of those with the digits found above it.

    Args:
        pieces: All values.
        above: The digits above it.
        shift: How many bits are below it.
    """
    counts = np.zeros(1 << _DIGIT, dtype=np.int64)
    for values in pieces():
        digits = values >> shift
        digits = digits[digits >> _DIGIT == above] & ((1 << _DIGIT) - 1)
        counts += np.bincount(digits, minlength=len(counts))
    return counts


__all__ = ["median_of"]
