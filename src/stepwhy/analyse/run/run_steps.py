"""The steps of the whole run, of which a trace may hold only a few."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.analyse.facts import Facts

    Ints = NDArray[np.int64]


class RunSteps(NamedTuple):
    """All steps of a run, in order; all shapes (steps,).

    Attributes:
        starts_ns: Start of each step.
        durations_ns: Its wall time.
        profiled: Whether a profiler ran during it; False if that does not tell steps apart, because
            all of them come from a profiler.
        is_observed: Whether stepwhy observed them, rather than found them in a trace.
    """

    starts_ns: Ints
    durations_ns: Ints
    profiled: NDArray[np.bool_]
    is_observed: bool


def run_steps(facts: Facts) -> RunSteps:
    """The steps that stepwhy observed, else those that the trace records; empty if there are none.

    Args:
        facts: Facts of the trace.
    """
    marks, recorded = facts.trace.marks, facts.recorded_steps
    if len(marks):
        times = (marks.start_ns.astype(np.int64), marks.dur_ns.astype(np.int64))
        return RunSteps(*times, marks.profiled == 1, is_observed=True)
    count = 0 if recorded.source == "whole-trace" else len(recorded.starts)
    times = (
        recorded.starts[:count].astype(np.int64),
        recorded.durations_ns[:count].astype(np.int64),
    )
    return RunSteps(*times, np.zeros(count, dtype=np.bool_), is_observed=False)
