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
_NARROW = tuple(np.dtype(code) for code in ("int8", "int16", "int32"))


def _is_code(column: Column) -> bool:
    return column.name in _IDS or column.unit == "string" or column.unit.startswith("row of ")


CODES: frozenset[str] = frozenset(c.name for c in columns_of("slices") if _is_code(c))
"""Columns of slices that may be narrower than the schema says."""


def narrowed(values: Whole) -> Whole:
    """The same numbers, as narrow as `narrowest` says.

    Args:
        values: A column; itself, if it is as narrow as it can be, or one number repeated.
    """
    if not len(values) or values.strides == (0,):
        return values
    dtype = narrowest(int(values.min()), int(values.max()))
    return values.astype(dtype) if dtype < values.dtype else values


def narrowest(low: int, high: int) -> np.dtype[Any]:
    """The type with the fewest bits that holds two numbers, and sums and differences of them."""
    limits = ((dtype, 1 << (8 * dtype.itemsize - 2)) for dtype in _NARROW)
    return next((t for t, limit in limits if -limit <= low and high < limit), np.dtype(np.int64))


__all__ = ["CODES", "narrowed", "narrowest"]
