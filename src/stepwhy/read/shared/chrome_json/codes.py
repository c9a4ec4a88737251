"""First occurrences of codes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.base.columns.groups import group_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray


def first_seen(codes: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Distinct codes in the order in which they first occur, and the row of each."""
    first, _ = group_rows(codes)
    return codes[first], first.astype(np.int32)


__all__ = ["first_seen"]
