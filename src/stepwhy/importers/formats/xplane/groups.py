"""Which rows of columns agree, and codes for what columns hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepwhy.importers.formats.xplane.kernels.layout import MISSING

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.signedinteger[Any]]

# Codes below this can be combined with rows of any file without leaving the range of the integers.
_LARGEST_CODE = 1 << 31
# A table of this many times the rows still fits where sorting them would take longer.
_DENSE = 4
_SMALL = 1024  # rows of a table that fits whatever the rows are


def alike(*columns: Ints | NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """Group rows that agree in all columns.

    Args:
        columns: Numbers of any kind, equally long.

    Returns:
        The first row of every group, in the order of the file; the group of every row.
    """
    key = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        codes = column.astype(np.int64, copy=False)
        is_code = codes.min(initial=0) >= 0 and codes.max(initial=0) < _LARGEST_CODE
        codes = codes if is_code else ranked(codes)
        largest = int(codes.max(initial=0))
        if largest:
            key = _dense(key * (largest + 1) + codes)
    groups = int(key.max(initial=-1)) + 1
    first = np.empty(groups, dtype=np.int64)
    first[key[::-1]] = np.arange(len(key))[::-1]  # of equal keys the last one written stays
    order = np.argsort(first)
    place = np.empty(groups, dtype=np.int64)
    place[order] = np.arange(groups)
    return first[order], place[key]


def distinct(codes: Ints) -> NDArray[np.intp]:
    """The codes that occur, ascending.

    Args:
        codes: None negative, and not much larger than they are many.
    """
    taken = np.zeros(int(codes.max(initial=-1)) + 1, dtype=np.bool_)
    taken[codes] = True
    return np.flatnonzero(taken)


def ranked(column: Ints) -> Ints:
    """Codes in place of any numbers, different where those are; `MISSING` is 0 where it occurs."""
    is_there = column != MISSING
    present = column if is_there.all() else column[is_there]
    if not len(present):
        return np.zeros(len(column), dtype=np.int64)
    low, high = int(present.min()), int(present.max())
    if high - low <= _DENSE * len(column) + _SMALL:
        return np.where(is_there, column - low + 1, 0)
    return _sorted_ranks(column)


def _dense(key: Ints) -> Ints:
    """Codes from 0 on, of which each occurs, in place of numbers of which none is negative."""
    largest = int(key.max(initial=0))
    if largest <= _DENSE * len(key) + _SMALL:
        taken = np.zeros(largest + 1, dtype=np.bool_)
        taken[key] = True
        return np.cumsum(taken, dtype=np.int32)[key].astype(np.int64) - 1
    return _sorted_ranks(key)


def _sorted_ranks(column: Ints) -> Ints:
    return np.unique(column, return_inverse=True)[1].reshape(-1)
