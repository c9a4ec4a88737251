"""What is usual of the others: medians that leave one value out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def median_of_others(values: NDArray[Any]) -> NDArray[np.float64]:
    """The median of all other rows, for each row and column; 0 without others; (rows, ...).

    Args:
        values: At least one row; (rows, ...).
    """
    count = len(values)
    if count < 2:
        return np.zeros(values.shape)
    order = np.argsort(values, axis=0, kind="stable")
    place = np.argsort(order, axis=0, kind="stable")
    ascending = np.take_along_axis(values, order, axis=0)

    def nth(n: int) -> NDArray[Any]:
        """The n-th smallest of the others."""
        found: NDArray[Any] = np.where(n < place, ascending[n], ascending[n + 1])
        return found

    result: NDArray[np.float64] = (nth((count - 2) // 2) + nth((count - 1) // 2)) / 2
    return result
