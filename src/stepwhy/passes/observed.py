"""Steps that were observed without a profiler, and the breakdown on their time scale.

A profiler lengthens what it watches. Where stepwhy captured the run, most steps ran without one:
their wall time is the step's, and the profiled steps only say how it divides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np
from msgspec.structs import replace

from stepwhy.passes.overhead import observer_cost
from stepwhy.passes.stalls import CATEGORIES, Stalls, find_stalls, time_of_kinds
from stepwhy.passes.steps import count_warm_up
from stepwhy.trace import NULL, Kind
from stepwhy.trace.kinds import HAND_OVER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.passes.overhead import ObserverCost
    from stepwhy.passes.steps import StepTable
    from stepwhy.trace import Trace

# Host-side categories: a tracer costs time on the host, where it records every call.
_WATCHED = ("dispatch", "python", "unexplained")
# With fewer profiled steps the cost of profiling is one sample of noise.
_FEWEST_PROFILED = 3
# Where the host runs ahead, what its short steps launch is waited for in its long ones. Those are
# part of every stretch of so many steps; the shortest stretches that show it decide.
_STRETCHES = (32, 128, 512)  # steps
_FEWEST_STEPS = 16
# Profiled steps that are shorter than the others by more are no sample of them: what the others do
# beyond this is not known.
_MOST_STRETCHED = 1.25
# Noise of a shared machine lifts the mean of steps less than this above their median.
_UNEVEN = 1.3
_RESAMPLES = 400
_MOST_RESAMPLED = 1000  # steps; more do not narrow the interval visibly


class Observed(msgspec.Struct, frozen=True):
    """The observed steps of a captured run.

    Args:
        durations_ns: Wall time of the unprofiled steps in order, ns; (steps,).
        warm_up: Leading ones that are not steady.
        outside_ns: Median time of a steady step outside the framework's run call (TF1: the Python
            between runs), None where steps have no such call.
        profiler_cost: Relative cost of profiling a step, None where it cannot be told.
        profiler_cost_interval: Its 95 % bootstrap interval.
        input_wait_ns: Time that the driving thread of a typical step waited for batches, None
            where no loader was watched.
        cpu_ns: CPU time of the driving thread in a typical step, None where it was not measured.
        compile_ns: Time of a typical step in tracing or compiling, None where it was not measured.
        observer_cost: What watching adds to a step, None where no step went unwatched.
        steady_span_ns: Start of the first steady step and end of the last one; None without any.
        uneven: Whether the host waits for the device in some steps only, for all of them.
        wait_traced: Whether the profiled steps hold their share of such waits.
        usual_ns: Wall time of the steady steps that did not stall; None: of all of them.
        stalls_ns: What compilations and checkpoints in other steps add to the mean step, by
            category; empty where they take little time, or are in almost every step.
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

    @property
    def without_stalls_ns(self) -> int:
        """Median wall time of the usual steady steps; their mean where they are uneven."""
        usual = self.durations_ns[self.warm_up :] if self.usual_ns is None else self.usual_ns
        return round(float(usual.mean() if self.uneven else np.median(usual)))

    @property
    def wall_ns(self) -> int:
        """Wall time of a steady unprofiled step, with its mean share of what stalls some."""
        return self.without_stalls_ns + sum(self.stalls_ns.values())


def find_observed(
    trace: Trace,
    recorded: StepTable,
    rows: slice | None = None,
    *,
    has_accelerator: bool = False,
) -> Observed | None:
    """The steps of the log, None when no step was observed without a profiler.

    Args:
        trace: The trace, with `marks`.
        recorded: The steps that were profiled.
        rows: The rows of `marks` to look at; all where None.
        has_accelerator: Whether work of an accelerator was recorded.
    """
    marks = trace.marks
    chosen = np.arange(len(marks), dtype=np.int64)[rows or slice(None)]
    free = chosen[marks.profiled[chosen] == 0]
    if not len(free):
        return None
    durations = marks.dur_ns[free]
    warm_up = count_warm_up(durations)
    every = steady = free[warm_up:]
    in_call = bool((marks.graph_ns[steady] != NULL).all())
    stalls = Stalls(steady, {}) if in_call else find_stalls(trace, steady)
    steady, recorded = stalls.free, _without_stalls(trace, recorded) if stalls.mean_ns else recorded
    calls = marks.graph_ns[steady]
    runs_ahead = not in_call and (has_accelerator or trace.meta.framework == "jax")
    uneven = runs_ahead and _waits_now_and_then(marks.dur_ns[steady])
    wait_traced = not uneven or _holds_waits(recorded, marks.dur_ns[steady])
    if has_accelerator and not wait_traced:
        # The device keeps up with the short steps: what makes others long is not waiting for it.
        uneven, wait_traced = False, True
    cost, interval = None, None
    if not uneven:  # else unprofiled steps that wait are not comparable with profiled ones
        profiled = (recorded.durations_ns + handed_over(trace, recorded))[recorded.steady]
        unprofiled = calls if in_call else marks.dur_ns[steady]
        cost, interval = _profiler_cost(recorded, profiled, unprofiled)
    return Observed(
        durations,
        warm_up,
        round(float(np.median(marks.dur_ns[steady] - calls))) if in_call else None,
        cost,
        interval,
        _typical(trace, steady, marks.input_wait_ns, uneven=uneven),
        _typical(trace, steady, marks.cpu_ns, uneven=uneven),
        _typical(trace, steady, marks.compile_ns, uneven=uneven),
        observer_cost(marks.dur_ns[steady], marks.light[steady], steady),
        (int(marks.start_ns[every[0]]), int((marks.start_ns + marks.dur_ns)[every[-1]])),
        uneven,
        wait_traced,
        marks.dur_ns[steady],
        stalls.mean_ns,
    )


def _without_stalls(trace: Trace, recorded: StepTable) -> StepTable:
    """The recorded steps in which nothing was compiled or saved."""
    stalled = time_of_kinds(trace, *CATEGORIES).within(recorded.starts, recorded.ends) > 0
    columns = ("starts", "ends", "host_starts", "host_ends")
    kept = {name: getattr(recorded, name)[~stalled] for name in columns}
    return replace(recorded, **kept, warm_up=int((~stalled[: recorded.warm_up]).sum()))


def _waits_now_and_then(durations_ns: NDArray[np.int64]) -> bool:
    """Whether long steps recur so regularly that the median is not what a step takes."""
    if len(durations_ns) < _FEWEST_STEPS:
        return False
    median = float(np.median(durations_ns))

    def everywhere(size: int) -> bool:
        stretches = np.array_split(durations_ns, max(len(durations_ns) // size, 1))
        # The longest step of each is left out: a single one may be a pause.
        return all((d.sum() - d.max()) / (len(d) - 1) > _UNEVEN * median for d in stretches)

    sizes = [_STRETCHES[0], *(size for size in _STRETCHES[1:] if size <= len(durations_ns))]
    return any(everywhere(size) for size in sizes)


def _holds_waits(recorded: StepTable, durations_ns: NDArray[np.int64]) -> bool:
    """Whether the profiled steps are, on average, nearer to the mean than to the median step."""
    profiled = recorded.durations_ns[recorded.steady]
    middle = float(np.sqrt(np.median(durations_ns) * durations_ns.mean()))
    return bool(len(profiled) and profiled.mean() > middle)


def handed_over(trace: Trace, recorded: StepTable) -> NDArray[np.int64]:
    """How long the profiler took behind each traced step to hand over its trace, ns; (steps,).

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


def _profiler_cost(
    recorded: StepTable, profiled_ns: NDArray[np.int64], free_ns: NDArray[np.int64]
) -> tuple[float, tuple[float, float]] | tuple[None, None]:
    """Relative cost of profiling with its interval.

    Args:
        recorded: The steps that were profiled.
        profiled_ns: How long each steady one took, with what the profiler added.
        free_ns: Of the steady unprofiled steps, the time of what would be profiled: in TF1 the run
            call, not the Python between two of them.
    """
    enough = recorded.source == "marker" and len(recorded.starts) >= _FEWEST_PROFILED
    if not enough or free_ns.min() <= 0:
        return None, None
    return ratio_of_medians(profiled_ns, free_ns)


def _typical(
    trace: Trace, rows: NDArray[np.int64], values_ns: NDArray[np.int64], *, uneven: bool = False
) -> int | None:
    """Mean of a value over the middle half of the steps by length; None where one is unknown.

    The wall time is that of the median step, so what other steps wait must not count; where the
    steps are uneven it is that of the mean step, and all of them count. Light steps
    were only timed: they have no say here, nor has one before them, as what a step waited may be
    noted with the next one.
    """
    light = np.append(trace.marks.light, 0)
    looked_at = rows[(light[rows] == 0) & (light[rows + 1] == 0)]
    if not len(looked_at):
        return None
    durations_ns, values_ns = trace.marks.dur_ns[looked_at], values_ns[looked_at]
    low, high = np.percentile(durations_ns, [0, 100] if uneven else [25, 75])
    values = values_ns[(durations_ns >= low) & (durations_ns <= high)]
    if not len(values) or (values == NULL).any():
        return None
    return round(float(values.mean()))


def ratio_of_medians(
    profiled: NDArray[np.int64], free: NDArray[np.int64]
) -> tuple[float, tuple[float, float]]:
    """Median profiled step over median unprofiled one, minus 1, with a 95 % bootstrap interval.

    Args:
        profiled: Wall times of profiled steps, ns; (steps,).
        free: Wall times of others, ns; (steps,).
    """
    # Resampled here in two lines: SciPy would cost every start a third of a second.
    random = np.random.default_rng(0)

    def medians(values: NDArray[np.int64]) -> NDArray[np.float64]:
        chosen = values[-_MOST_RESAMPLED:]
        drawn = random.integers(0, len(chosen), (_RESAMPLES, len(chosen)))
        result: NDArray[np.float64] = np.median(chosen[drawn], axis=1)
        return result

    low, high = np.percentile(medians(profiled) / medians(free), [2.5, 97.5]) - 1
    cost = float(np.median(profiled)) / float(np.median(free)) - 1
    return round(cost, 3), (round(float(low), 3), round(float(high), 3))


def rescale(
    breakdown: dict[str, int], observed: Observed, *, on_accelerator: bool
) -> dict[str, int]:
    """The breakdown of profiled steps on the time scale of unprofiled ones; sums to their wall.

    What profiling added is taken from where it falls: on an accelerator from the host's
    categories as far as they reach, else from all in proportion. Profiled steps that were shorter
    than the others are stretched by a quarter at most; the rest has no evidence.

    Four times were measured, not profiled: that outside the framework's run call is Python; on a
    CPU, where no device computes meanwhile, that in a loader is waiting for input; of the time
    without evidence, that in which the framework compiled is that, and that in which the driving
    thread cannot have been blocked, for it used its core, is Python. Time outside the run call in
    which it cannot have used its core (it slept, or waited) has no evidence. Nor has the time of
    waits for the device that no profiled step holds.

    What compilations and checkpoints add to some of the steps was measured, too; the profiled steps
    show how the rest of a step divides.

    Args:
        breakdown: ns per category of the mean profiled step.
        observed: The unprofiled steps.
        on_accelerator: Whether an accelerator decides the breakdown.
    """
    stalls = observed.stalls_ns
    usual = {c: 0 if c in stalls else ns for c, ns in breakdown.items()}
    scaled = _with_compilation(_rescale(usual, observed, on_accelerator), observed)
    return {c: ns + stalls.get(c, 0) for c, ns in scaled.items()}


def _with_compilation(scaled: dict[str, int], observed: Observed) -> dict[str, int]:
    """Without evidence of anything else, what was compiled is compiling, traced or not."""
    missing = max((observed.compile_ns or 0) - scaled["compile"], 0)
    moved = min(missing, scaled["unexplained"])
    return {
        **scaled,
        "compile": scaled["compile"] + moved,
        "unexplained": scaled["unexplained"] - moved,
    }


def _rescale(breakdown: dict[str, int], observed: Observed, on_accelerator: bool) -> dict[str, int]:
    if not observed.wait_traced:
        missing = max(observed.without_stalls_ns - sum(breakdown.values()), 0)
        known = _shrink(
            breakdown, observed.without_stalls_ns - missing, on_accelerator=on_accelerator
        )
        return {**known, "unexplained": known["unexplained"] + missing}
    outside = observed.outside_ns or 0
    inside = max(observed.without_stalls_ns - outside, 0)
    waited = None if on_accelerator else observed.input_wait_ns
    if waited is None:
        scaled = _shrink(breakdown, inside, on_accelerator=on_accelerator)
    else:
        waited = min(waited, inside)
        rest = {**breakdown, "input_wait": 0}
        scaled = _shrink(rest, inside - waited, on_accelerator=on_accelerator)
        scaled["input_wait"] += waited
    running = _running(breakdown, scaled["unexplained"], observed)
    beyond = observed.without_stalls_ns - inside
    python = beyond if observed.cpu_ns is None else min(beyond, observed.cpu_ns)
    scaled["unexplained"] += beyond - python - running
    scaled["python"] += python + running
    return scaled


def _running(breakdown: dict[str, int], unexplained_ns: int, observed: Observed) -> int:
    """The part of the unexplained time in which the driving thread must have been running.

    All the time in which it was not is taken to be unexplained: the least that can be claimed.
    """
    nothing_known = sum(breakdown.values()) == breakdown["unexplained"]
    if observed.cpu_ns is None or nothing_known:
        return 0
    blocked = max(observed.without_stalls_ns - observed.cpu_ns, 0)
    return max(unexplained_ns - blocked, 0)


def _shrink(breakdown: dict[str, int], wall_ns: int, *, on_accelerator: bool) -> dict[str, int]:
    recorded = sum(breakdown.values())
    if not recorded:
        return {**breakdown, "unexplained": wall_ns}
    known_ns = min(wall_ns, round(_MOST_STRETCHED * recorded))
    if known_ns < wall_ns:
        known = _shrink(breakdown, known_ns, on_accelerator=on_accelerator)
        return {**known, "unexplained": known["unexplained"] + wall_ns - known_ns}
    watched = sum(breakdown[c] for c in _WATCHED)
    excess = recorded - wall_ns
    if on_accelerator and 0 < excess < watched:
        parts = {
            c: v * (1 - excess / watched) if c in _WATCHED else v for c, v in breakdown.items()
        }
    else:
        parts = {c: v * wall_ns / recorded for c, v in breakdown.items()}
    whole = {c: round(v) for c, v in parts.items()}
    largest = max(whole, key=lambda c: whole[c])
    whole[largest] += wall_ns - sum(whole.values())
    return whole
