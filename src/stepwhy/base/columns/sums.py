"""Sums of times and sizes that never overflow, even with the values of damaged records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepwhy.base.columns.chunks import CHUNK, chunks

if TYPE_CHECKING:
    from numpy.typing import NDArray

LARGEST = 2**63 - 1
"""Largest signed integer of 64 bits; larger sums are capped."""

# Sums that are smaller, computed as a double, cannot overflow 64 bits.
_SAFE = 2.0**62
# Doubles hold every integer up to here, and are summed several times as fast.
_EXACT = 2**53


def total_of(values: NDArray[np.int64], rows: NDArray[np.signedinteger[Any]] | None = None) -> int:
    """The sum of times or sizes, capped at `LARGEST`.

    Args:
        values: Times in ns, or bytes; none below zero.
        rows: Rows of the values to add up, all by default; (any,).
    """
    if rows is not None:
        return min(sum(total_of(values[rows[part]]) for part in chunks(len(rows))), LARGEST)
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
    """Sums of times or sizes per group, each capped at `LARGEST`; (groups,).

    Args:
        values: Times in ns, or bytes; (values,).
        group: Group of every value; (values,).
        groups: Number of groups.
        where: Mask of the values to add up, all by default; (values,).
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
        group: Group of every row; (rows,).
        groups: Number of groups.
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
    """Run `sums_of` with doubles, which are exact up to `_EXACT`."""
    sums = np.zeros(groups)
    for chunk in chunks(len(values), max(CHUNK, groups)):
        kept = slice(None) if where is None else where[chunk]
        sums += np.bincount(group[chunk][kept], values[chunk][kept], groups)
    return sums.astype(np.int64)
