"""What many short operations take while nothing records them."""

from __future__ import annotations

import numpy as np

from stepwhy.analyse.activity.selection import of_threads
from stepwhy.analyse.facts import Facts
from stepwhy.base.columns.intervals import Intervals
from stepwhy.base.columns.types import Ints
from stepwhy.diagnose.shared.measure import mean_within

# Recording takes no larger share of a time than this, however often something is recorded.
_MOST_RECORDING = 0.75
# Nor does an event cost more, ns: what else is longer in recorded steps has other reasons. In four
# programs of short operations, it was 450 to 700 ns, and up to 1,300 ns on busy cores.
_LONGEST_EVENT_NS = 1000.0


def without_recording(facts: Facts, time: Intervals, scaled_ns: int) -> int:
    """Time per mean step of short operations while nothing records them, ns.

    Recording delays each event by about as much, so that it makes short operations longer than long
    ones. How much of the delay falls on them is not known: the result is in the middle between
    their share by time and their share by number of events. On four programs, this was 0.9 to 1.4
    of what the operations took, and the share by time alone 1.4 to 1.7.

    Args:
        facts: Facts of the run.
        time: When the operations run.
        scaled_ns: Their time per mean step, by `on_scale`.
    """
    event_ns = facts.derived(_event_ns)
    if not event_ns:
        return scaled_ns
    starts = facts.trace.slices.start_ns[_driver_events(facts)]
    events = np.count_nonzero(time.within(starts, starts + 1)) / max(facts.steady_count, 1)
    recorded_ns = mean_within(facts, time)
    usual_ns = max(recorded_ns - event_ns * events, (1 - _MOST_RECORDING) * recorded_ns)
    return round((scaled_ns + min(usual_ns, scaled_ns)) / 2)


def _event_ns(facts: Facts) -> float:
    """By how much the recorded steps are longer than the others for each event, ns.

    0 where that is not known, and on accelerators, which the host does not hold up.
    """
    events = len(_driver_events(facts))
    if facts.observed is None or facts.has_accelerator or not events:
        return 0.0
    steps = facts.steps
    recorded = float((steps.host_ends - steps.host_starts)[steps.steady].sum())
    usual = facts.observed.without_stalls_ns * facts.steady_count
    return min(max(recorded - usual, 0.0) / events, _LONGEST_EVENT_NS)


def _driver_events(facts: Facts) -> Ints:
    """What is recorded of the driving thread in steady steps; rows of slices."""
    if facts.threads.driving < 0:
        return np.zeros(0, dtype=np.int64)
    on_thread = of_threads(facts.trace, (facts.threads.driving,))[facts.trace.slices.track]
    return np.flatnonzero(on_thread & facts.is_steady)
