"""Staging: threads of XLA that copy an array of the host into memory that a device can read.

The device copies it from there. Until then, what needs the array waits, and the driving thread may
wait inside the framework, which looks like launching work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.analyse.activity.devices import intervals_of
from stepwhy.analyse.activity.selection import of_role, rows_of
from stepwhy.base.columns.intervals import Intervals
from stepwhy.base.patterns import regex
from stepwhy.trace import Kind, Role

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.trace import Trace

# Source: TraceMe annotations in `xla/pjrt/common_pjrt_client.cc`.
_STAGES = regex(r"H2D Dispatch")
# ns; in a shorter one, the thread mostly launches the copy. Those of a few KiB take 20 to 150 us.
_SHORTEST_NS = 200_000


def staging_time(trace: Trace, computing: Intervals) -> Intervals:
    """Time in which devices may wait for an array to be staged.

    What a device computes while an array is staged does not need it. So only the time after that
    counts: an array that is copied ahead, beside many short kernels, does not hold them up.

    Args:
        trace: The trace.
        computing: Time in which any device computes.
    """
    rows = rows_of(trace, (Kind.FRAMEWORK,), of_role(trace, Role.HOST_THREAD, Role.EXECUTOR))
    rows = rows[trace.slices.dur_ns[rows] >= _SHORTEST_NS]
    staging_rows: NDArray[np.int64] = rows[
        trace.matches(trace.slices.name[rows], _STAGES.fullmatch)
    ]
    staging = intervals_of(trace, staging_rows)
    if not len(computing):
        return staging
    before = np.searchsorted(computing.starts, staging.ends) - 1
    computed = np.where(before < 0, staging.starts, computing.ends[before])
    return Intervals.of(np.maximum(staging.starts, computed), staging.ends)
