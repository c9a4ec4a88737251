"""Columns in as few bytes as their values need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from stepwhy.base.columns.types import AnyInts


_NARROW: Final = tuple(np.dtype(code) for code in ("int8", "int16", "int32"))


def constant(value: int, count: int, dtype: DTypeLike = np.int64) -> NDArray[Any]:
    """Return a read-only column that holds one value everywhere and stores it once; (count,)."""
    return np.broadcast_to(np.asarray(value, dtype=dtype), count)


def is_constant(values: NDArray[Any]) -> bool:
    """Return whether a column stores one value for all rows, as `constant` makes it."""
    return values.strides == (0,)


def narrowed(values: AnyInts) -> AnyInts:
    """Return the same numbers in the type that `narrowest` gives.

    Args:
        values: A column; returned as it is when it is narrow or constant already.
    """
    if not len(values) or is_constant(values):
        return values
    dtype = narrowest(int(values.min()), int(values.max()))
    return values.astype(dtype) if dtype < values.dtype else values


def narrowest(low: int, high: int) -> np.dtype[Any]:
    """Return the smallest type that holds two numbers, their sums and their differences."""
    limits = ((dtype, 1 << (8 * dtype.itemsize - 2)) for dtype in _NARROW)
    return next((t for t, limit in limits if -limit <= low and high < limit), np.dtype(np.int64))
