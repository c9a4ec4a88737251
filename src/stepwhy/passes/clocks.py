"""Whether host and device rows lie on one clock: nothing can run before it was launched."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.columns.sums import total_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
    starts, durations = trace.slices.start_ns, trace.slices.dur_ns
    work, calls = launches.joined
    if not len(work):
        return False
    called_at = starts[calls]
    if (starts[work] < called_at).sum() > _MOST_EARLY * len(work):
        return True
    launched_ns = total_of(durations[work[_within(steps, called_at)]])
    seen_ns = sum(int(a.busy.within(steps.starts, steps.ends).sum()) for a in activities)
    return seen_ns < _LEAST_SEEN * launched_ns


def _within(steps: StepTable, times_ns: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each time lies in a step as the host saw it; (times,)."""
    step = np.searchsorted(steps.host_starts, times_ns, side="right") - 1
    inside: NDArray[np.bool_] = (step >= 0) & (times_ns < steps.host_ends[np.maximum(step, 0)])
    return inside
