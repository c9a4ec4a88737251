"""Numbers for things that repeat in the records of a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from numpy.typing import NDArray


# Numbers that are looked at at a time.
_PIECE = 1 << 16


class Codes(dict[Any, int]):
    """Numbers things in the order of their first sight."""

    def __missing__(self, key: Hashable) -> int:
        """The next number."""
        code = self[key] = len(self)
        return code

    def of(self, keys: Iterable[Hashable], count: int) -> NDArray[np.int32]:
        """Numbers of many things; (count,)."""
        return np.fromiter(map(self.__getitem__, keys), dtype=np.int32, count=count)


def first_seen(codes: NDArray[np.int32], count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Numbers below `count` that occur, in the order of their first sight, and where that is."""
    first = np.full(count, len(codes), dtype=np.int64)
    for begin in reversed(range(0, len(codes), _PIECE)):
        # Of several values that are put in one place, the last stays.
        some = codes[begin : begin + _PIECE]
        first[some[::-1]] = np.arange(begin + len(some) - 1, begin - 1, -1)
    order = np.argsort(first, kind="stable")[: int((first < len(codes)).sum())]
    return order, first[order]
