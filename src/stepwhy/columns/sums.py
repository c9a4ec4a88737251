"""Sums of times and sizes, which damaged records must not turn below zero."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepwhy.columns.chunks import CHUNK, chunks

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
    values: NDArray[np.int64],
    group: NDArray[np.signedinteger[Any]],
    groups: int,
    where: NDArray[np.bool_] | None = None,
) -> NDArray[np.int64]:
    """Sums of times or sizes per group, each at most what 64 bits hold; (groups,).

    Args:
        values: Times in ns, or bytes; (values,).
        group: The group of each; (values,).
        groups: How many groups there are.
        where: Whether each value counts, all by default; (values,).
    """
    largest = max(-int(values.min(initial=0)), int(values.max(initial=0)))
    if largest * len(values) < _EXACT:
        return _exact_sums(values, group, groups, where)
    if where is not None:
        values, group = values[where], group[where]
    sums = np.zeros(groups, dtype=np.int64)
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


def counts_of(group: NDArray[np.signedinteger[Any]], groups: int) -> NDArray[np.int64]:
    """Number of rows per group; (groups,).

    Args:
        group: The group of each; (rows,).
        groups: How many groups there are.
    """
    counts = np.zeros(groups, dtype=np.int64)
    for chunk in chunks(len(group), max(CHUNK, groups)):
        counts += np.bincount(group[chunk], minlength=groups)
    return counts


def _exact_sums(
    values: NDArray[np.int64],
    group: NDArray[np.signedinteger[Any]],
    groups: int,
    where: NDArray[np.bool_] | None,
) -> NDArray[np.int64]:
    """Run `sums_of` with doubles, which hold each of the sums."""
    sums = np.zeros(groups)
    for chunk in chunks(len(values), max(CHUNK, groups)):
        kept = slice(None) if where is None else where[chunk]
        sums += np.bincount(group[chunk][kept], values[chunk][kept], groups)
    return sums.astype(np.int64)


__all__ = ["LARGEST", "counts_of", "sums_of", "total_of"]
