"""Steps that were observed without a profiler, and the breakdown on their time scale.

A profiler lengthens what it watches. Where stepwhy captured the run, most steps ran without one:
their wall time is the step's, and the profiled steps only say how it divides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stepwhy.passes.steps import count_warm_up
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.trace import Trace

# Host-side categories: a tracer costs time on the host, where it records every call.
_WATCHED = ("dispatch", "python", "unexplained")
# With fewer profiled steps the cost of profiling is one sample of noise.
_FEWEST_PROFILED = 2


@dataclass(frozen=True, slots=True)
class Observed:
    """The observed steps of a captured run.

    Args:
        durations_ns: Wall time of the unprofiled steps in order, ns; (steps,).
        warm_up: Leading ones that are not steady.
        outside_ns: Median time of a steady step outside the framework's run call (TF1: the Python
            between runs), None where steps have no such call.
        profiler_cost: Relative cost of profiling a step, None where it cannot be told.
    """

    durations_ns: NDArray[np.int64]
    warm_up: int
    outside_ns: int | None
    profiler_cost: float | None

    @property
    def wall_ns(self) -> int:
        """Median wall time of the steady unprofiled steps."""
        return round(float(np.median(self.durations_ns[self.warm_up :])))


def find_observed(trace: Trace) -> Observed | None:
    """The steps of the log, None when no step was observed without a profiler."""
    marks = trace.marks
    free = marks.profiled == 0
    durations = marks.dur_ns[free]
    if not len(durations):
        return None
    warm_up = count_warm_up(durations)
    inside = marks.graph_ns[free][warm_up:]
    outside = None
    if len(inside) and (inside != NULL).all():
        outside = round(float(np.median(durations[warm_up:] - inside)))
    return Observed(durations, warm_up, outside, _cost(trace, durations[warm_up:]))


def _cost(trace: Trace, free: NDArray[np.int64]) -> float | None:
    """Profiled against unprofiled; by the time in the run call, where there is one.

    Around a profiled step the capture writes files, which is no part of profiling.
    """
    marks = trace.marks
    profiled = marks.profiled == 1
    if profiled.sum() < _FEWEST_PROFILED or not len(free):
        return None
    watched, unwatched = marks.dur_ns[profiled], free
    calls = marks.graph_ns
    if (calls != NULL).all():
        watched, unwatched = calls[profiled], calls[~profiled]
    usual = float(np.median(unwatched))
    return round(float(np.median(watched)) / usual - 1, 3) if usual else None


def rescale(
    breakdown: dict[str, int], observed: Observed, *, on_accelerator: bool
) -> dict[str, int]:
    """The breakdown of profiled steps on the time scale of unprofiled ones; sums to their wall.

    What profiling added is taken from where it falls: on an accelerator from the host's
    categories as far as they reach, else from all in proportion. Time outside the framework's
    run call was measured, not profiled, and is Python.

    Args:
        breakdown: ns per category of the mean profiled step.
        observed: The unprofiled steps.
        on_accelerator: Whether an accelerator decides the breakdown.
    """
    outside = observed.outside_ns or 0
    inside = max(observed.wall_ns - outside, 0)
    scaled = _shrink(breakdown, inside, on_accelerator=on_accelerator)
    scaled["python"] += observed.wall_ns - inside
    return scaled


def _shrink(breakdown: dict[str, int], wall_ns: int, *, on_accelerator: bool) -> dict[str, int]:
    recorded = sum(breakdown.values())
    watched = sum(breakdown[c] for c in _WATCHED)
    excess = recorded - wall_ns
    if on_accelerator and 0 < excess < watched:
        parts = {
            c: v * (1 - excess / watched) if c in _WATCHED else v for c, v in breakdown.items()
        }
    else:
        parts = {c: v * wall_ns / recorded if recorded else 0 for c, v in breakdown.items()}
    whole = {c: round(v) for c, v in parts.items()}
    largest = max(whole, key=lambda c: whole[c])
    whole[largest] += wall_ns - sum(whole.values())
    return whole
