"""Time in which the driving thread waits until its files are on disk, as stepwhy logged it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepwhy.analyse.steps.stalls import rows_of_kinds, time_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.analyse.steps.observed import Observed
    from stepwhy.analyse.steps.step_search import StepTable
    from stepwhy.base.columns.intervals import Intervals
    from stepwhy.trace import Trace

# The observer logs no more calls, so later steps are unknown.
_MOST_CALLS = 1000
# Share of the steps; in fewer, calls are not part of the usual step.
_USUAL = 0.5


def sync_rows(trace: Trace) -> NDArray[np.int64]:
    """Rows of the trace's `events` that are waits for the disk, ascending."""
    return rows_of_kinds(trace, "fsync")


def sync_time(trace: Trace) -> Intervals:
    """Time of the waits for the disk outside of checkpoints."""
    return time_of(trace, sync_rows(trace)) - time_of(trace, rows_of_kinds(trace, "save"))


def synced_steps(trace: Trace, steps: NDArray[np.int64]) -> NDArray[np.int64]:
    """Those of some steps in which all waits for the disk were logged.

    Args:
        trace: The trace of an observed run.
        steps: Rows of its `marks`, ascending; (steps,).
    """
    calls, marks = sync_rows(trace), trace.marks
    if len(calls) < _MOST_CALLS:
        return steps
    ends = marks.start_ns[steps] + marks.dur_ns[steps]
    known: NDArray[np.int64] = steps[ends <= trace.events.start_ns[calls[-1]]]
    return known


def usual_sync_ns(trace: Trace, steps: NDArray[np.int64], *, uneven: bool) -> int:
    """Time of the usual step in waits for the disk outside of checkpoints, ns.

    Args:
        trace: The trace of an observed run.
        steps: Rows of its `marks`, ascending; (steps,).
        uneven: Whether the mean step is described, and not the median one.
    """
    known = synced_steps(trace, steps)
    if not len(known):
        return 0
    starts = trace.marks.start_ns[known]
    inside = sync_time(trace).within(starts, starts + trace.marks.dur_ns[known])
    if (inside > 0).mean() < _USUAL:
        return 0
    return round(float(inside.mean() if uneven else np.median(inside)))


class ExposedSyncs(NamedTuple):
    """Waits for the disk while nothing computes.

    Attributes:
        recorded_ns: Their time in the mean profiled step.
        usual_ns: Their time in the usual unprofiled step.
    """

    recorded_ns: int
    usual_ns: int

    def apart(self, breakdown: dict[str, int]) -> dict[str, int]:
        """The breakdown of profiled steps without these waits.

        Disks take longer in one step than in the next, and longer while a profiler runs.
        """
        return {**breakdown, "storage": max(breakdown["storage"] - self.recorded_ns, 0)}

    def added(self, breakdown: dict[str, int]) -> dict[str, int]:
        """The breakdown of unprofiled steps with these waits, of which it has none."""
        return {**breakdown, "storage": breakdown["storage"] + self.usual_ns}


NO_SYNCS = ExposedSyncs(0, 0)


def exposed_syncs(
    trace: Trace,
    recorded: StepTable,
    storage: Intervals,
    steps: NDArray[np.int64],
    observed: Observed,
) -> ExposedSyncs:
    """The exposed waits for the disk; the share that is exposed is that of the profiled steps.

    Args:
        trace: The trace of an observed run.
        recorded: The profiled steps.
        storage: Time of the profiled steps in which the host writes and nothing computes.
        steps: Rows of `marks` of the steady unprofiled steps, ascending; (steps,).
        observed: The same steps.
    """
    waits = sync_time(trace)
    windows = recorded.starts[recorded.steady], recorded.ends[recorded.steady]
    alone, every = ((waits & time).within(*windows) for time in (storage, waits))
    if not alone.any():
        return NO_SYNCS
    usual = usual_sync_ns(trace, steps, uneven=observed.uneven)
    exposed = round(usual * int(alone.sum()) / int(every.sum()))
    exposed = min(exposed, observed.without_stalls_ns)
    return ExposedSyncs(round(float(alone.mean())) if exposed else 0, exposed)
