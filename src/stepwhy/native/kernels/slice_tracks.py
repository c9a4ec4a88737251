"""The track of a slice, for kernels."""

from numba import njit

from stepwhy.native.kernels.wire import INLINE
from stepwhy.native.memory import byte_at, half_at, quarter_at

_HALF, _QUARTER = 4, 2


@njit(**INLINE)
def track_at(tracks, width, row):
    """The track of a slice, which is never negative, in a column of so many bytes a row."""
    if width == _HALF:
        return half_at(tracks + 4 * row)
    if width == _QUARTER:
        return quarter_at(tracks + 2 * row)
    return byte_at(tracks + row)
