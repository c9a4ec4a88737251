"""Logged events in the steady steps of an observed run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.passes.stalls import events_in

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.passes.facts import Facts
    from stepwhy.passes.stalls import StepEvents


def steady_events(facts: Facts, rows: NDArray[np.int64]) -> StepEvents:
    """Those of some events that begin in steady, unprofiled steps of the described stretch.

    Args:
        facts: Facts of the run.
        rows: Rows of the trace's `events`; (events,).
    """
    marks = facts.trace.marks
    steps = np.arange(len(marks), dtype=np.int64)[facts.regimes.current.rows]
    steps = steps[marks.profiled[steps] == 0]
    return events_in(facts.trace, steps[facts.observed.warm_up if facts.observed else 0 :], rows)


def cost_per_step(facts: Facts, inside: StepEvents) -> int:
    """Time of some events per step, as a part of the step that the breakdown describes, ns.

    Args:
        facts: Facts of the run.
        inside: The events.
    """
    if facts.observed is not None and facts.observed.stalls_ns:
        return min(inside.mean_ns, facts.wall_ns)
    return round(inside.share * facts.wall_ns)


__all__ = ["cost_per_step", "steady_events"]
