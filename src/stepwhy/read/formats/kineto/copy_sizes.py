"""Sizes of device copies that the trace records on the runtime call only, as ROCm does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepwhy.base.columns.groups import first_rows
from stepwhy.trace import NULL, Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Block = dict[str, NDArray[Any]]


def fill_copy_sizes(blocks: list[Block]) -> bool:
    """Give each copy without a size the size of the call that launched it.

    Args:
        blocks: Columns of slices, as in the schema; `bytes` is replaced.

    Returns:
        Whether any copy got a size.
    """
    calls = [_sized_calls(block) for block in blocks]
    ids, size = (np.concatenate([c[i] for c in calls] or [np.empty(0)]) for i in range(2))
    if not len(ids):
        return False
    # Of several calls with one id, the last one counts.
    last = first_rows(ids[::-1])
    ids, size, filled = ids[::-1][last], size[::-1][last], False
    for block in blocks:
        rows = np.flatnonzero((block["kind"] == Kind.MEMCPY) & (block["bytes"] == NULL))
        nearest = np.minimum(np.searchsorted(ids, block["correlation"][rows]), len(ids) - 1)
        hit = ids[nearest] == block["correlation"][rows]
        if hit.any():
            block["bytes"] = block["bytes"].copy()  # the column may be one repeated value
            block["bytes"][rows[hit]] = size[nearest[hit]]
            filled = True
    return filled


def _sized_calls(block: Block) -> tuple[NDArray[Any], NDArray[Any]]:
    """Correlation ids and sizes of host calls that record both."""
    is_sized = (block["kind"] < Kind.KERNEL) & (block["bytes"] > 0) & (block["correlation"] > 0)
    return block["correlation"][is_sized], block["bytes"][is_sized]
