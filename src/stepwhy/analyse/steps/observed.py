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
from stepwhy.analyse.steps.overhead import is_untypical, observer_cost, ratio_of_medians
from stepwhy.analyse.steps.rounds import is_cut, with_rounds
from stepwhy.analyse.steps.stalls import (
    find_saves,
    find_stalls,
    stalling,
    time_of,
    time_of_kinds,
    usual_times,
)
from stepwhy.analyse.steps.step_search import count_warm_up
from stepwhy.analyse.steps.uneven import comes_in_bursts, lacks_waits, waits
from stepwhy.trace import NULL, Kind
from stepwhy.trace.kinds import HAND_OVER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.analyse.steps.overhead import ObserverCost
    from stepwhy.analyse.steps.rounds import Rounds
    from stepwhy.analyse.steps.stalls import Stalls
    from stepwhy.analyse.steps.step_search import StepTable
    from stepwhy.trace import Trace

# With fewer profiled steps the cost of profiling is lost in noise.
_FEWEST_PROFILED = 3
# Steps before and after profiled ones, with which these are compared if other programs compete for
# the cores: the waits for a core are alike within some steps, but not over a whole run.
_BESIDE = 16
_LITTLE = 0.2  # of a step; what two runs of the same program may differ by
# The parts of shorter profiled steps are stretched by this factor at most; the rest of the
# unprofiled step is unexplained. Threads that wait for cores take longer for the same work.
MOST_STRETCHED = 1.25
# Share of the mean step that profiled ones must last to include their share of the waits.
_LEAST_TRACED = 2 / 3
_MOST_WAITING = 0.6  # of the runnable time; with more, profiled steps do not show the usual one


class Observed(msgspec.Struct, frozen=True):
    """The observed steps of a captured run.

    Args:
        durations_ns: Wall time of the unprofiled steps in order, ns; (steps,).
        warm_up: Number of leading steps that are not steady.
        outside_ns: Median time of a steady step outside the framework's run call (TF1: the Python
            between runs), None if steps have no such call.
        profiler_cost: Relative cost of profiling a step; None if unknown, as where waits for cores
            that other programs use may make the difference.
        profiler_cost_interval: Its 95 % bootstrap interval.
        input_wait_ns: Time that the driving thread of a typical step waited for batches, None if no
            loader was observed.
        cpu_ns: CPU time of the driving thread in a typical step, None if not measured.
        core_wait_ns: Time of a typical step in which that thread was ready to run, but had no core;
            None if not measured.
        compile_ns: Time of a typical step in tracing or compiling, None if not measured.
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
        rounds_ns: For each steady step of a host that runs ahead of the device, the mean step
            between two times at which the device had caught up; None for other hosts.
        with_profiled: Whether profiled steps count, because the device caught up with the host in
            none of the others.
        at_least: Whether the step takes longer than that by an unknown time, because the device was
            behind when the last step ended.
        is_contended: Whether other programs kept the process waiting for cores in these steps.
    """

    durations_ns: NDArray[np.int64]
    warm_up: int
    outside_ns: int | None
    profiler_cost: float | None
    profiler_cost_interval: tuple[float, float] | None
    input_wait_ns: int | None = None
    cpu_ns: int | None = None
    compile_ns: int | None = None
    observer_cost: ObserverCost | None = None
    steady_span_ns: tuple[int, int] | None = None
    uneven: bool = False
    wait_traced: bool = True
    usual_ns: NDArray[np.int64] | None = None
    stalls_ns: dict[str, int] = msgspec.field(default_factory=dict)
    collecting_ns: int = 0
    most_stretched: float = MOST_STRETCHED
    rounds_ns: NDArray[np.int64] | None = None
    with_profiled: bool = False
    at_least: bool = False
    core_wait_ns: int | None = None
    is_contended: bool = False

    @property
    def runnable_ns(self) -> int | None:
        """Time of a typical step in which the driving thread ran or waited for a core."""
        return None if self.cpu_ns is None else self.cpu_ns + (self.core_wait_ns or 0)

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
    collecting_ns = _collecting(trace, recorded)
    steady, recorded = stalls.free, _without_stalls(trace, recorded) if stalls.mean_ns else recorded
    calls = marks.graph_ns[steady]
    if lacks_waits(trace, recorded, marks.dur_ns[steady]):
        return None
    usual, uneven, wait_traced = marks.dur_ns[steady], False, True
    if not in_call:
        usual, uneven, wait_traced = _waiting(trace, recorded, every, stalls, has_accelerator)
    span_ns = int(marks.start_ns[every[0]]), int((marks.start_ns + marks.dur_ns)[every[-1]])
    is_contended = _is_contended(trace, chosen)
    beside = _comparable(trace, chosen, steady, nearest=is_contended)
    cost, interval = None, None
    # Unprofiled steps that wait, or that the training profiles, are not comparable with profiled
    # ones.
    if not (uneven or _profile_themselves(trace, steady)):
        profiled = (recorded.durations_ns + handed_over(trace, recorded))[recorded.steady]
        unprofiled = calls[beside] if in_call else marks.dur_ns[steady][beside]
        cost, interval = _profiler_cost(recorded, profiled, unprofiled)
        is_small = interval is not None and interval[1] <= _LITTLE
        if is_contended and not is_small and not is_untypical(cost, interval):
            cost, interval = None, None
    return Observed(
        durations,
        warm_up,
        round(float(np.median(marks.dur_ns[steady] - calls))) if in_call else None,
        cost,
        interval,
        _typical_wait(trace, steady, uneven=uneven),
        _typical(trace, steady, marks.cpu_ns, uneven=uneven),
        _typical(trace, steady, marks.compile_ns, uneven=uneven),
        observer_cost(marks.dur_ns[steady], marks.light[steady], steady),
        span_ns,
        uneven,
        wait_traced,
        usual,
        stalls.mean_ns,
        collecting_ns if "python" in stalls.mean_ns else 0,
        _stretched(trace, span_ns),
        core_wait_ns=_core_wait(trace, steady, uneven=uneven),
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
    compiled, waited, used = (
        _typical(trace, rows, column, uneven=True)
        for column in (marks.compile_ns, marks.input_wait_ns, marks.cpu_ns)
    )
    return Observed(
        marks.dur_ns[free],
        int(np.searchsorted(free, rows[0])),
        None,
        None,
        None,
        waited,
        used,
        compiled,
        observer_cost(marks.dur_ns[rows], marks.light[rows], rows),
        span_ns,
        uneven=True,
        wait_traced=has_accelerator or factor * traced_ns > _LEAST_TRACED * rounds.usual_ns.mean(),
        usual_ns=rounds.usual_ns,
        stalls_ns=rounds.stalls.mean_ns,
        most_stretched=factor,
        rounds_ns=rounds.means_ns + sum(rounds.stalls.mean_ns.values()),
        with_profiled=rounds.with_profiled,
        at_least=not rounds.whole,
        core_wait_ns=_core_wait(trace, rows, uneven=True),
        is_contended=_is_contended(trace, rows),
    )


def _profile_themselves(trace: Trace, steps: NDArray[np.int64]) -> bool:
    """Whether the training's own profiler was on in most of the steps that stepwhy did not trace.

    They then show no step without a profiler.
    """
    own, marks = time_of_kinds(trace, "profiler"), trace.marks
    recorded = own.within(marks.start_ns[steps], (marks.start_ns + marks.dur_ns)[steps]) > 0
    return bool(recorded.mean() > 0.5) if len(steps) else False


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


def _collecting(trace: Trace, recorded: StepTable) -> int:
    """Time of the mean profiled step in which the garbage collector ran, ns."""
    starts, ends = recorded.starts[recorded.steady], recorded.ends[recorded.steady]
    inside = time_of_kinds(trace, "gc").within(starts, ends)
    return round(float(inside.mean())) if len(inside) else 0


def _without_stalls(trace: Trace, recorded: StepTable) -> StepTable:
    """The recorded steps in which nothing was compiled or saved."""
    stalled = time_of(trace, stalling(trace)).within(recorded.starts, recorded.ends) > 0
    columns = ("starts", "ends", "host_starts", "host_ends")
    kept = {name: getattr(recorded, name)[~stalled] for name in columns}
    return replace(recorded, **kept, warm_up=int((~stalled[: recorded.warm_up]).sum()))


def handed_over(trace: Trace, recorded: StepTable) -> NDArray[np.int64]:
    """Time that the profiler took to write its records after each traced step, ns; (steps,).

    Args:
        trace: The trace.
        recorded: Its steps.
    """
    rows = trace.rows(Kind.PROFILER)
    rows = rows[np.isin(trace.slices.name[rows], trace.strings_where({HAND_OVER}))]
    step = np.searchsorted(recorded.host_starts, trace.slices.start_ns[rows], side="right") - 1
    sums = np.zeros(len(recorded.starts), dtype=np.int64)
    np.add.at(sums, step[step >= 0], trace.slices.dur_ns[rows[step >= 0]])
    return sums


def _is_contended(trace: Trace, rows: NDArray[np.int64]) -> bool:
    """Whether other programs kept the process waiting for cores from the first to the last row."""
    marks, first, last = trace.marks, rows[0], rows[-1]
    span_ns = int(marks.start_ns[first]), int(marks.start_ns[last] + marks.dur_ns[last])
    return (contention(trace, span_ns) or 0.0) >= CONTENDED


def _comparable(
    trace: Trace, chosen: NDArray[np.int64], steady: NDArray[np.int64], *, nearest: bool
) -> NDArray[np.bool_]:
    """Mask of the unprofiled steps to compare the profiled ones with; (steady,).

    Args:
        trace: The trace, with `marks`.
        chosen: Rows of all steps of the described stretch.
        steady: Rows of its steady unprofiled steps.
        nearest: Whether to compare only steps next to profiled ones.
    """
    profiled = np.flatnonzero(trace.marks.profiled == 1)
    inside = chosen[trace.marks.profiled[chosen] == 1]
    if len(profiled) and not len(inside):
        return np.zeros(len(steady), dtype=bool)  # those of another stretch were profiled
    if not nearest or not len(inside):
        return np.ones(len(steady), dtype=bool)
    after = np.searchsorted(inside, steady)
    to_next = inside[np.minimum(after, len(inside) - 1)] - steady
    to_last = steady - inside[np.maximum(after - 1, 0)]
    found: NDArray[np.bool_] = np.minimum(np.abs(to_next), np.abs(to_last)) <= _BESIDE
    return found


def _profiler_cost(
    recorded: StepTable, profiled_ns: NDArray[np.int64], free_ns: NDArray[np.int64]
) -> tuple[float, tuple[float, float]] | tuple[None, None]:
    """Relative cost of profiling with its interval.

    Args:
        recorded: The steps that were profiled.
        profiled_ns: Time of each steady profiled step, including what the profiler added.
        free_ns: Time of the same part of each steady unprofiled step: in TF1 the run call, without
            the Python between two calls.
    """
    enough = recorded.source == "marker" and len(recorded.starts) >= _FEWEST_PROFILED
    if not enough or not len(free_ns) or free_ns.min() <= 0:
        return None, None
    return ratio_of_medians(profiled_ns, free_ns)


def _typical_wait(trace: Trace, rows: NDArray[np.int64], *, uneven: bool) -> int | None:
    """Wait for a batch in a typical step; None if unknown.

    Where batches come in bursts, the steps that wait may be rare among those that were fully
    observed, or frequent: both recur at regular intervals. The rest of a step differs less, so the
    mean wait is what the mean of all steps takes beyond it.
    """
    full = _fully_observed(trace, rows)
    durations_ns, waits_ns = trace.marks.dur_ns, trace.marks.input_wait_ns
    if not uneven or not comes_in_bursts(durations_ns[full], waits_ns[full]):
        return _typical(trace, rows, waits_ns, uneven=uneven)
    known = full[waits_ns[full] != NULL]
    rest_ns = float((durations_ns - waits_ns)[known].mean())
    return max(round(float(durations_ns[rows].mean()) - rest_ns), 0)


def _fully_observed(trace: Trace, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Steps that were not only timed; the wait of a step before such a one may be missing, too."""
    light = np.append(trace.marks.light, 0)
    full: NDArray[np.int64] = rows[(light[rows] == 0) & (light[rows + 1] == 0)]
    return full


def _typical(
    trace: Trace, rows: NDArray[np.int64], values_ns: NDArray[np.int64], *, uneven: bool = False
) -> int | None:
    """Mean of a value over the middle half of the steps by length; None if any is unknown.

    The wall time is that of the median step, so waits in longer steps must not count. If the steps
    are uneven, it is that of the mean step, and all fully observed steps count.
    """
    full = _fully_observed(trace, rows)
    values = values_ns[_typical_rows(trace, full, uneven=uneven)]
    if not len(values) or (values == NULL).any():
        return None
    return round(float(values.mean()))


def _core_wait(trace: Trace, rows: NDArray[np.int64], *, uneven: bool) -> int | None:
    """Mean wait of the driving thread for a core in a typical step; None if it was never measured.

    It is measured in some of the steps only, if these are short.
    """
    waits_ns = trace.marks.run_delay_ns
    known = rows[waits_ns[rows] != NULL]
    values = waits_ns[_typical_rows(trace, known, uneven=uneven)]
    return round(float(values.mean())) if len(values) else None


def _typical_rows(trace: Trace, rows: NDArray[np.int64], *, uneven: bool) -> NDArray[np.int64]:
    """The middle half of some steps by length; all of them if they are uneven."""
    if uneven or not len(rows):
        return rows
    durations_ns = trace.marks.dur_ns[rows]
    low, high = np.percentile(durations_ns, [25, 75])
    found: NDArray[np.int64] = rows[(durations_ns >= low) & (durations_ns <= high)]
    return found
