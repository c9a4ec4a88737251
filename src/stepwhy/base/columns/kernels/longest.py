"""Compiled loops for longest paths: 30 times as fast as the plain ones that they are made of."""

from numba import boolean, int64, njit, void

from stepwhy.base.columns import _longest_plain
from stepwhy.base.columns.kernels.numbering import PLAIN, readonly

_READ, _WRITTEN = readonly(int64), int64[::1]

order_nodes = njit(
    int64(_READ, _READ, int64, _READ, _READ, _WRITTEN, _WRITTEN), cache=True, **PLAIN
)(_longest_plain.order_nodes)
longest = njit(
    void(*[_READ] * 3, readonly(boolean), *[_READ] * 4, _WRITTEN, _WRITTEN), cache=True, **PLAIN
)(_longest_plain.longest)
walk_back = njit(int64(int64, _READ, _READ, _WRITTEN), cache=True, **PLAIN)(
    _longest_plain.walk_back
)
