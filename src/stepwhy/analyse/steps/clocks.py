"""Detect host and device rows on different clocks: no work can start before its launch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.base.columns.intervals import windows_at
from stepwhy.base.columns.sums import total_of
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from stepwhy.analyse.activity.devices import Activity
    from stepwhy.analyse.activity.launches import Launches
    from stepwhy.analyse.steps.step_search import StepTable
    from stepwhy.trace import Trace

# If clocks agree, no device work starts before its launch; a few exceptions are allowed.
_MOST_EARLY = 0.1
# Device work trails its launch by at most one queue, so most of it runs inside the steps. If less
# than this share does, the clocks differ.
_LEAST_SEEN = 0.1


def clocks_disagree(
    trace: Trace, launches: Launches, steps: StepTable, activities: list[Activity]
) -> bool:
    """Whether the file's device rows cannot be compared with its host rows.

    Args:
        trace: The trace.
        launches: Its launch join; the result is False if it is empty.
        steps: Its steps.
        activities: Its devices.
    """
    starts, (work, calls) = trace.slices.start_ns, launches.joined
    if not len(work):
        return False
    if (starts[work] < starts[calls]).sum() > _MOST_EARLY * len(work):
        return True
    step = windows_at(starts[calls], steps.host_starts, steps.host_ends)
    launched_ns = total_of(trace.slices.dur_ns[work[step != NULL]])
    seen_ns = sum(int(a.busy.within(steps.starts, steps.ends).sum()) for a in activities)
    return seen_ns < _LEAST_SEEN * launched_ns
