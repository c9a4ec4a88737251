"""Whether host and device rows lie on one clock: nothing can run before it was launched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.columns.intervals import windows_at
from stepwhy.columns.sums import total_of
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from stepwhy.passes.devices import Activity
    from stepwhy.passes.launches import Launches
    from stepwhy.passes.steps import StepTable
    from stepwhy.trace import Trace

# Clocks that agree put no device work before its launch; a few strays are not the clock.
_MOST_EARLY = 0.1
# Work trails its launches by a queue's length at most, so most of what the steps launch runs in
# them; less than this share, and it lies on another clock.
_LEAST_SEEN = 0.1


def clocks_disagree(
    trace: Trace, launches: Launches, steps: StepTable, activities: list[Activity]
) -> bool:
    """Whether the file's device rows cannot be compared with its host rows.

    Args:
        trace: The trace.
        launches: Its launch join; without one nothing is known, and the answer is no.
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
