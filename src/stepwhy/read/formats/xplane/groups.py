"""Grouping of rows whose numbers may be `MISSING`, and codes for their values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.read.formats.xplane.kernels.layout import MISSING

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.base.columns.types import AnyInts


# Smaller codes can be combined with the number of a group without overflowing int64.
_LARGEST_CODE = 1 << 31
# Largest lookup table, in entries per row and in any case; above this, sorting is faster.
_DENSE = 4
_SMALL = 1024


def equal_rows(*columns: AnyInts | NDArray[np.bool_]) -> tuple[AnyInts, AnyInts]:
    """Group rows that are equal in all columns; groups are in the order of their first rows.

    Args:
        columns: Integers or booleans; (rows,) each.

    Returns:
        The first row of every group, (groups,), and the group of every row, (rows,).
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
    first[key[::-1]] = np.arange(len(key))[::-1]  # reversed, so that the first row stays
    order = np.argsort(first)
    place = np.empty(groups, dtype=np.int64)
    place[order] = np.arange(groups)
    return first[order], place[key]


def ranked(column: AnyInts) -> AnyInts:
    """Non-negative codes, one per distinct number; 0 for `MISSING` if it occurs; (rows,)."""
    is_present = column != MISSING
    present = column if is_present.all() else column[is_present]
    if not len(present):
        return np.zeros(len(column), dtype=np.int64)
    low, high = int(present.min()), int(present.max())
    if high - low <= _DENSE * len(column) + _SMALL:
        return np.where(is_present, column - low + 1, 0)
    return _sorted_ranks(column)


def _dense(key: AnyInts) -> AnyInts:
    """Replace non-negative numbers by consecutive codes from 0; (rows,)."""
    largest = int(key.max(initial=0))
    if largest <= _DENSE * len(key) + _SMALL:
        seen = np.zeros(largest + 1, dtype=np.bool_)
        seen[key] = True
        return np.cumsum(seen, dtype=np.int32)[key].astype(np.int64) - 1
    return _sorted_ranks(key)


def _sorted_ranks(column: AnyInts) -> AnyInts:
    return np.unique(column, return_inverse=True)[1].reshape(-1)
