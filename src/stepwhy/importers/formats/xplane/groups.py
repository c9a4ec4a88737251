"""Which rows of columns agree, and codes for what columns hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepwhy.importers.formats.xplane import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.native import Kernel

    Ints = NDArray[np.signedinteger[Any]]

MISSING = np.iinfo(np.int64).min
"""Stands for a number that an event does not carry."""

# Codes below this can be combined with rows of any file without leaving the range of the integers.
_LARGEST_CODE = 1 << 31
# A table of this many times the rows still fits where sorting them would take longer.
_DENSE = 4
_SMALL = 1024  # rows of a table that fits whatever the rows are
# Kernels number rows with 32 bits; the first table of groups has room for so many.
_MOST_ROWS = 1 << 31
_FIRST_GROUPS = 1 << 12


def alike(*columns: Ints | NDArray[np.bool_], kernel: Kernel | None = None) -> tuple[Ints, Ints]:
    """Group rows that agree in all columns.

    Args:
        columns: Numbers of any kind, equally long.
        kernel: The kernel `group_rows`, where it is at hand; else it is asked for if it pays.

    Returns:
        The first row of every group, in the order of the file; the group of every row.
    """
    kernel = kernel or compiled.for_rows(len(columns[0]), "group_rows")
    if kernel is None or len(columns[0]) >= _MOST_ROWS:
        return _alike(*columns)
    given = [np.ascontiguousarray(column) for column in columns]
    of_columns = np.array([(c.ctypes.data, c.itemsize) for c in given], dtype=np.int64)
    rows, room = len(columns[0]), _FIRST_GROUPS
    group = np.empty(rows, dtype=np.int32)
    while True:
        first = np.empty(room, dtype=np.int32)
        slots = np.zeros(2 * room, dtype=np.int32)
        # The fields of the kernel, in its order.
        fields = [of_columns.ctypes.data, len(given), rows, slots.ctypes.data, len(slots) - 1]
        fields += [first.ctypes.data, room, group.ctypes.data]
        control = np.array(fields, dtype=np.int64)  # must outlive the call
        groups = kernel(control.ctypes.data)
        if groups >= 0:
            return first[:groups], group
        room *= 8


def _alike(*columns: Ints | NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """As `alike`, one column after the other."""
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
