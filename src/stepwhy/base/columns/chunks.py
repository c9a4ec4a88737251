"""Columns processed in chunks, so that temporary arrays stay small."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from stepwhy.base.columns.types import AnyRows


Value = TypeVar("Value", bound=np.generic)

CHUNK: Final = 1 << 16
"""Rows of a chunk; some columns of them fit into a processor's cache."""


def chunks(count: int, size: int | None = None) -> Iterator[slice]:
    """Split rows [0, count) into consecutive slices.

    Args:
        count: Number of rows.
        size: AnyRows per slice; `CHUNK` by default.
    """
    size = CHUNK if size is None else size
    return (slice(first, min(first + size, count)) for first in range(0, count, size))


def take(values: NDArray[Value], rows: AnyRows) -> NDArray[Value]:
    """Return `values[rows]`; negative rows give an arbitrary value.

    NumPy indexes with 64-bit integers: the conversion is done for one chunk at a time.
    """
    found = np.empty(len(rows), dtype=values.dtype)
    for chunk in chunks(len(rows)):
        # NumPy only writes into `out` directly in this mode.
        np.take(values, rows[chunk], out=found[chunk], mode="clip")
    return found


def put(target: NDArray[Any], rows: AnyRows, values: NDArray[Any] | bool) -> None:
    """Assign `target[rows] = values`, converting one chunk of rows at a time.

    Args:
        target: Array to write to; (any,).
        rows: Where to write; (rows,).
        values: What to write; (rows,), or one value for all.
    """
    for chunk in chunks(len(rows)):
        target[rows[chunk]] = values if isinstance(values, bool) else values[chunk]
