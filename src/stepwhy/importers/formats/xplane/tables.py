"""Tables that compiled kernels look ids up in, as they lie in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

# A table this much longer than the ids are many is still a table; beyond it they are searched.
_DENSE = 4
_SMALL = 1024


class IdTable:
    """Numbers by id.

    Args:
        keys: Ids, ascending.
        values: Their numbers.
        missing: What stands for ids that are not there.
    """

    def __init__(self, keys: NDArray[np.int64], values: NDArray[np.int32], missing: int) -> None:
        near = (keys >= 0) & (keys < _DENSE * len(keys) + _SMALL)
        dense = np.full(int(keys[near].max(initial=-1)) + 1, missing, dtype=np.int32)
        dense[keys[near]] = values[near]
        self._arrays = dense, keys[~near], values[~near].astype(np.int32)
        dense, far, of_far = self._arrays
        self._fields = np.array(
            [dense.ctypes.data, len(dense), far.ctypes.data, of_far.ctypes.data, len(far)],
            dtype=np.int64,
        )

    @property
    def address(self) -> int:
        """Where the kernel's description of the table lies; valid as long as this object."""
        return self._fields.ctypes.data
