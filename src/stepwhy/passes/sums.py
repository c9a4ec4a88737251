"""Sums of times and sizes, which damaged records must not turn below zero."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

LARGEST = 2**63 - 1
"""What 64 bits hold."""

SAFE = 2.0**62
"""A sum that is smaller as a double is far from where integers of 64 bits end."""


def total_of(values: NDArray[np.int64]) -> int:
    """The sum of some times or sizes, at most what 64 bits hold.

    Args:
        values: Times in ns, or bytes; none below zero.
    """
    if float(values.sum(dtype=np.float64)) < SAFE:
        return int(values.sum())
    total: int = sum(values.tolist())
    return min(total, LARGEST)


__all__ = ["LARGEST", "SAFE", "total_of"]
