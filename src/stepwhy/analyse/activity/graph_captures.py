"""Times in which a process captured its device work into a graph instead of running it.

Between the begin and the end of a stream capture of CUDA or HIP, launches only add to a graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.analyse.activity.selection import of_role, rows_of
from stepwhy.base.columns.intervals import Intervals
from stepwhy.base.patterns import regex
from stepwhy.trace import Kind, Role

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.trace import Trace

_CALLS = regex(r"^(?:cuda|cu|hip)Stream(?:Begin|End)Capture")
_BEGIN = regex(r"StreamBeginCapture")


def capture_time(trace: Trace) -> Intervals:
    """Time in which any thread captured device work into a graph."""
    calls = rows_of(trace, (Kind.RUNTIME,), of_role(trace, Role.HOST_THREAD))
    calls = calls[trace.matches(trace.slices.name[calls], _CALLS.search)]
    if not len(calls):
        return Intervals.empty()
    track = trace.slices.track[calls]
    spans = [_pairs(trace, calls[track == one]) for one in np.unique(track).tolist()]
    starts, ends = np.concatenate(spans).T
    return Intervals.of(starts, ends)


def _pairs(trace: Trace, calls: NDArray[np.int64]) -> NDArray[np.int64]:
    """Start and end of the captures of one thread, ns; (captures, 2).

    A capture whose begin or end was not recorded is left out.
    """
    begins = trace.matches(trace.slices.name[calls], _BEGIN.search)
    first = np.flatnonzero(begins[:-1] & ~begins[1:])
    starts, ends = trace.slices.start_ns[calls[first]], trace.ends(calls[first + 1])
    return np.stack([starts, ends], axis=1)
