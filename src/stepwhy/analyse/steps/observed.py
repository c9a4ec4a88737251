"""Steps that were observed without a profiler.

A profiler slows down the steps that it records. If stepwhy observed the run, most steps ran without
a profiler: they determine the step time, and the profiled steps only show how it divides
(`rescaling`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np
from msgspec.structs import replace

from stepwhy.analyse.steps.contention import contention
from stepwhy.analyse.steps.cores import CONTENDED, run_delay_share
from stepwhy.analyse.steps.driver_times import DriverTimes, driver_times
from stepwhy.analyse.steps.overhead import observer_cost, profiler_cost
from stepwhy.analyse.steps.rounds import is_cut, with_rounds
from stepwhy.analyse.steps.stalls import (
    epoch_starts,
    find_saves,
    find_stalls,
    stalling,
    time_of,
    time_of_kinds,
    usual_times,
)
from stepwhy.analyse.steps.step_search import count_warm_up
from stepwhy.analyse.steps.uneven import comes_in_bursts, lacks_waits, waits
from stepwhy.base.columns.intervals import Intervals
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.analyse.steps.overhead import ObserverCost
    from stepwhy.analyse.steps.rounds import Rounds
    from stepwhy.analyse.steps.stalls import Stalls
    from stepwhy.analyse.steps.step_search import StepTable
    from stepwhy.trace import Trace

# The parts of shorter profiled steps are stretched by this factor at most; the rest of the
# unprofiled step is unexplained. Threads that wait for cores take longer for the same work.
MOST_STRETCHED = 1.25
# Share of the mean step that profiled ones must last to include their share of the waits.
_LEAST_TRACED = 2 / 3
_MOST_WAITING = 0.6  # of the runnable time; with more, profiled steps do not show the usual one


class Ahead(msgspec.Struct, frozen=True):
    """The steps of a host that runs ahead of the device.

    Args:
        rounds_ns: For each steady step, the mean step between two times at which the device had
            caught up.
        with_profiled: Whether profiled steps count, because the device caught up with the host in
            none of the others.
        at_least: Whether the step takes longer than that by an unknown time, because the device was
            behind when the last step ended.
    """

    rounds_ns: NDArray[np.int64]
    with_profiled: bool
    at_least: bool


class Observed(msgspec.Struct, frozen=True):
    """The observed steps of a captured run.

    Args:
        durations_ns: Wall time of the unprofiled steps in order, ns; (steps,).
        warm_up: Number of leading steps that are not steady.
        driver: Times of the driving thread in a typical step.
        profiler_cost: Relative cost of profiling a step; None if unknown, as where waits for cores
            that other programs use may make the difference.
        profiler_cost_interval: Its 95 % bootstrap interval.
        observer_cost: Time that observation adds to a step, None if every step was fully observed.
        steady_span_ns: Start of the first steady step and end of the last one; None without any.
        uneven: Whether only some steps wait, for the work of all: the host for the device, or for
            batches that several workers deliver at once.
        wait_traced: Whether the profiled steps include their share of such waits.
        usual_ns: Wall time of the steady steps that did not stall; None for all steady steps.
        stalls_ns: Time that compilations and checkpoints in some steps add to the mean step, by
            category; empty if they take little time or are in almost every step.
        collecting_ns: Time of the mean profiled step in which garbage was collected, if the mean
            step has that time of unprofiled steps instead.
        most_stretched: By which factor the parts of a profiled step that ran on CPU cores may be
            stretched.
        ahead: Its rounds, if the host runs ahead of the device, else None.
        is_contended: Whether other programs kept the process waiting for cores in these steps.
    """

    durations_ns: NDArray[np.int64]
    warm_up: int
    driver: DriverTimes = DriverTimes()
    profiler_cost: float | None = None
    profiler_cost_interval: tuple[float, float] | None = None
    observer_cost: ObserverCost | None = None
    steady_span_ns: tuple[int, int] | None = None
    uneven: bool = False
    wait_traced: bool = True
    usual_ns: NDArray[np.int64] | None = None
    stalls_ns: dict[str, int] = msgspec.field(default_factory=dict)
    collecting_ns: int = 0
    most_stretched: float = MOST_STRETCHED
    ahead: Ahead | None = None
    is_contended: bool = False

    @property
    def without_stalls_ns(self) -> int:
        """Median wall time of the usual steady steps; their mean if they are uneven."""
        usual = self.durations_ns[self.warm_up :] if self.usual_ns is None else self.usual_ns
        return round(float(usual.mean() if self.uneven else np.median(usual)))

    def shortened(self, time_ns: int) -> Observed:
        """The same steps without a time that is part of each of them, ns."""
        if not time_ns:
            return self
        usual = self.durations_ns[self.warm_up :] if self.usual_ns is None else self.usual_ns
        return replace(self, usual_ns=usual - time_ns)

    @property
    def wall_ns(self) -> int:
        """Wall time of a steady unprofiled step, including the mean time of stalls."""
        return self.without_stalls_ns + sum(self.stalls_ns.values())


def find_observed(
    trace: Trace,
    recorded: StepTable,
    rows: slice | None = None,
    *,
    has_accelerator: bool = False,
    device_ns: int = 0,
) -> Observed | None:
    """The observed steps; None if no step was observed without a profiler, or too few.

    Args:
        trace: The trace, with `marks`.
        recorded: The steps that were profiled.
        rows: The rows of `marks` to use; None for all.
        has_accelerator: Whether work of an accelerator was recorded.
        device_ns: Time that the accelerators which decide the breakdown work in a recorded step.
    """
    marks = trace.marks
    chosen = np.arange(len(marks), dtype=np.int64)[rows or slice(None)]
    free = chosen[marks.profiled[chosen] == 0]
    if not len(free):
        return None
    trace, rounds = with_rounds(trace, chosen, device_ns)
    if rounds is not None:
        return _of_rounds(trace, recorded, rounds, free, has_accelerator=has_accelerator)
    return _of_steps(trace, recorded, chosen, has_accelerator=has_accelerator)


def _of_steps(
    trace: Trace,
    recorded: StepTable,
    chosen: NDArray[np.int64],
    *,
    has_accelerator: bool,
) -> Observed | None:
    """The unprofiled steps, each of which has a time of its own; None if no such step waits."""
    marks = trace.marks
    free = chosen[marks.profiled[chosen] == 0]
    durations = marks.dur_ns[free]
    warm_up = count_warm_up(durations)
    every = steady = free[warm_up:]
    in_call = bool((marks.graph_ns[steady] != NULL).all())
    stalls = find_saves(trace, steady) if in_call else find_stalls(trace, steady)
    starts, ends = recorded.starts[recorded.steady], recorded.ends[recorded.steady]
    inside = time_of_kinds(trace, "gc").within(starts, ends)
    collecting_ns = round(float(inside.mean())) if len(inside) else 0
    steady, recorded = stalls.free, _without_stalls(trace, recorded) if stalls.mean_ns else recorded
    if lacks_waits(trace, recorded, marks.dur_ns[steady]):
        return None
    usual, uneven, wait_traced = marks.dur_ns[steady], False, True
    if not in_call:
        usual, uneven, wait_traced = _waiting(trace, recorded, every, stalls, has_accelerator)
    span_ns = int(marks.start_ns[every[0]]), int((marks.start_ns + marks.dur_ns)[every[-1]])
    is_contended = _is_contended(trace, chosen)
    # Unprofiled steps that wait are not comparable with profiled ones.
    cost, interval = (
        (None, None)
        if uneven
        else profiler_cost(
            trace, recorded, chosen, steady, in_call=in_call, is_contended=is_contended
        )
    )
    return Observed(
        durations,
        warm_up,
        driver_times(trace, steady, in_call=in_call, uneven=uneven, bursts=True),
        cost,
        interval,
        observer_cost(marks.dur_ns[steady], marks.light[steady], steady),
        span_ns,
        uneven,
        wait_traced,
        usual,
        stalls.mean_ns,
        collecting_ns if "python" in stalls.mean_ns else 0,
        _stretched(trace, span_ns),
        is_contended=is_contended,
    )


def _of_rounds(
    trace: Trace,
    recorded: StepTable,
    rounds: Rounds,
    free: NDArray[np.int64],
    *,
    has_accelerator: bool,
) -> Observed:
    """The steps of a host that runs ahead of the device, whose mean shows the work of a step."""
    marks, rows = trace.marks, rounds.rows
    span_ns = int(marks.start_ns[rows[0]]), int((marks.start_ns + marks.dur_ns)[rows[-1]])
    traced_ns = float(recorded.durations_ns[recorded.steady].mean())
    factor = _stretched(trace, span_ns)
    if is_cut(trace, recorded):
        # The device was at work all the time, on fewer steps than the host has launched.
        factor = max(factor, float(rounds.usual_ns.mean()) / max(traced_ns, 1.0))
    stalls_ns = rounds.stalls.mean_ns
    return Observed(
        marks.dur_ns[free],
        int(np.searchsorted(free, rows[0])),
        driver_times(trace, rows, uneven=True, bursts=False),
        observer_cost=observer_cost(marks.dur_ns[rows], marks.light[rows], rows),
        steady_span_ns=span_ns,
        uneven=True,
        wait_traced=has_accelerator or factor * traced_ns > _LEAST_TRACED * rounds.usual_ns.mean(),
        usual_ns=rounds.usual_ns,
        stalls_ns=stalls_ns,
        most_stretched=factor,
        ahead=Ahead(
            rounds.means_ns + sum(stalls_ns.values()), rounds.with_profiled, not rounds.whole
        ),
        is_contended=_is_contended(trace, rows),
    )


def _stretched(trace: Trace, span_ns: tuple[int, int]) -> float:
    """By which factor the parts of profiled steps may be stretched."""
    return MOST_STRETCHED / (1 - min(run_delay_share(trace, span_ns) or 0.0, _MOST_WAITING))


def _waiting(
    trace: Trace,
    recorded: StepTable,
    steps: NDArray[np.int64],
    stalls: Stalls,
    has_accelerator: bool,
) -> tuple[NDArray[np.int64], bool, bool]:
    """Time of the usual steps, whether only some of them wait, and whether such were profiled."""
    if has_accelerator or trace.meta.framework == "jax":
        usual = usual_times(trace, steps, stalls)
        return usual, *waits(recorded, usual, has_accelerator)
    usual, waited = trace.marks.dur_ns[stalls.free], trace.marks.input_wait_ns[stalls.free]
    return usual, comes_in_bursts(usual, waited), True


def _without_stalls(trace: Trace, recorded: StepTable) -> StepTable:
    """The recorded steps in which nothing was compiled or saved, and that begin no epoch late."""
    starts, ends = recorded.starts, recorded.ends
    stalled = time_of(trace, stalling(trace)).within(starts, ends) > 0
    marks, late = trace.marks, epoch_starts(trace, np.arange(len(trace.marks)))
    first = late.steps[late.affected]
    begun = Intervals.of(marks.start_ns[first], (marks.start_ns + marks.dur_ns)[first])
    stalled |= 2 * begun.within(starts, ends) > ends - starts
    columns = ("starts", "ends", "host_starts", "host_ends")
    kept = {name: getattr(recorded, name)[~stalled] for name in columns}
    return replace(recorded, **kept, warm_up=int((~stalled[: recorded.warm_up]).sum()))


def _is_contended(trace: Trace, rows: NDArray[np.int64]) -> bool:
    """Whether other programs kept the process waiting for cores from the first to the last row."""
    marks, first, last = trace.marks, rows[0], rows[-1]
    span_ns = int(marks.start_ns[first]), int(marks.start_ns[last] + marks.dur_ns[last])
    return (contention(trace, span_ns) or 0.0) >= CONTENDED
