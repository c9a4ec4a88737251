"""What operations work on, where the profiler recorded types and shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.trace import NULL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.trace import Trace


def types_of(trace: Trace) -> NDArray[np.int32]:
    """For each slice, the types of its arguments; a string, NULL if not recorded; (slices,)."""
    return _column(trace, trace.operands.types)


def shapes_of(trace: Trace) -> NDArray[np.int32]:
    """For each slice, the shapes of its arguments; a string, NULL if not recorded; (slices,)."""
    return _column(trace, trace.operands.shapes)


def _column(trace: Trace, values: NDArray[np.int32]) -> NDArray[np.int32]:
    found = np.full(len(trace.slices), NULL, dtype=np.int32)
    found[trace.operands.slice] = values
    return found
