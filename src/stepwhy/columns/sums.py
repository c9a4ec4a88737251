"""Sums of times and sizes, which damaged records must not turn below zero."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

LARGEST = 2**63 - 1
"""What 64 bits hold."""

# A sum that is smaller as a double is far from where integers of 64 bits end.
_SAFE = 2.0**62
# Up to here, doubles hold every integer; they are added up several times as fast.
_EXACT = 2**53


def total_of(values: NDArray[np.int64]) -> int:
    """The sum of some times or sizes, at most what 64 bits hold.

    Args:
        values: Times in ns, or bytes; none below zero.
    """
    if float(values.sum(dtype=np.float64)) < _SAFE:
        return int(values.sum())
    total: int = sum(values.tolist())
    return min(total, LARGEST)


_HALF_BITS = 31


def sums_of(
    values: NDArray[np.int64], group: NDArray[np.signedinteger[Any]], groups: int
) -> NDArray[np.int64]:
    """Sums of times or sizes per group, each at most what 64 bits hold; (groups,).

    Args:
        values: Times in ns, or bytes; (values,).
        group: The group of each; (values,).
        groups: How many groups there are.
    """
    sums = np.zeros(groups, dtype=np.int64)
    largest = max(-int(values.min(initial=0)), int(values.max(initial=0)))
    if largest * len(values) < _EXACT:
        return np.bincount(group, values, groups).astype(np.int64)
    if largest * len(values) < _SAFE:
        np.add.at(sums, group, values)
        return sums
    high = np.zeros(groups, dtype=np.int64)
    np.add.at(high, group, values >> _HALF_BITS)
    np.add.at(sums, group, values & ((1 << _HALF_BITS) - 1))
    high += sums >> _HALF_BITS
    sums &= (1 << _HALF_BITS) - 1
    sums |= high << _HALF_BITS
    sums[high >= 1 << 63 - _HALF_BITS] = LARGEST
    return sums


__all__ = ["LARGEST", "sums_of", "total_of"]
