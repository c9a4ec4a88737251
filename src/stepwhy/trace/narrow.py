"""Numbers in as few bytes as they need: rows, strings and ids of millions of slices are small."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepwhy.trace.schema import Column, columns_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Whole = NDArray[np.signedinteger[Any]]

# Numbers that are looked up and compared. Times and bytes are added up: they stay as wide as sums.
_IDS = ("correlation", "sequence")


def _is_code(column: Column) -> bool:
    return column.name in _IDS or column.unit == "string" or column.unit.startswith("row of ")


CODES: frozenset[str] = frozenset(c.name for c in columns_of("slices") if _is_code(c))
"""Columns of slices that may be narrower than the schema says."""


def narrowed(values: Whole) -> Whole:
    """The same numbers, narrower where a sum or difference of two of them still fits.

    Args:
        values: A column; itself, if it is as narrow as it can be, or one number repeated.
    """
    if not len(values) or values.strides == (0,):
        return values
    low, high = int(values.min()), int(values.max())
    for narrow in (np.int8, np.int16, np.int32):
        limit = 1 << (8 * np.dtype(narrow).itemsize - 2)
        if -limit <= low and high < limit:
            return values.astype(narrow) if np.dtype(narrow) < values.dtype else values
    return values


__all__ = ["CODES", "narrowed"]
