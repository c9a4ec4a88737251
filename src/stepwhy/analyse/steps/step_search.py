"""Find the steps: by markers, observed steps, repetition, or as the whole trace.

On an accelerator the launches run ahead of the device, so a marker on the host shows when a step
was *launched*. A step therefore ends when the device work that it launched has ended, or when the
host's own step ends if that is later (a loop that synchronises).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec
import numpy as np
from msgspec.structs import replace

from stepwhy.analyse.activity.devices import intervals_of
from stepwhy.analyse.activity.graph_runs import find_runs
from stepwhy.analyse.activity.launches import FIRST_USE_NS
from stepwhy.analyse.activity.lost_work import find_launched, with_last_work, without_first_work
from stepwhy.analyse.activity.selection import of_role, of_threads, rows_of
from stepwhy.analyse.steps.periodicity import find_period
from stepwhy.analyse.steps.stalls import rows_of_kinds
from stepwhy.base.columns.intervals import Intervals, windows_at
from stepwhy.result.reasons import BetweenMarkers, Cut
from stepwhy.trace import NULL, Kind, Role
from stepwhy.trace.kinds import BUSY_KINDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepwhy.analyse.activity.launches import Launches
    from stepwhy.analyse.activity.lost_work import Launched
    from stepwhy.analyse.activity.threads import Threads
    from stepwhy.base.columns.nesting import Nesting
    from stepwhy.result.reasons import StepNote
    from stepwhy.trace import Trace

    Bounds: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64]]

# A leading step counts as warm-up when it takes this many times the median of the later ones:
# first-run set-up costs multiples of a step, ordinary variation does not.
WARM_UP_FACTOR = 1.8
# Fewer steps than this cannot show what is usual.
_FEWEST_STEPS = 3
# At most this share of the steps may be warm-up, else nothing steady was recorded.
_LARGEST_WARM_UP = 0.5
# If host and device steps differ by more than this share, the host runs ahead of the device: its
# step marks then show how fast it launches, not how fast it trains.
MISLEADING_LAG = 0.05
# A step on the device that is shorter than this share of its marker is what is left of it behind
# earlier work, not the time that a step takes.
_REMAINDER = 0.1
# Confidence that traced runs of a graph are steps: a step may run several graphs.
_OF_RUNS = 0.8
# Markers that leave out more than this share of the loop's time do not cover the loop.
_MOST_BETWEEN = 0.1


class StepTable(msgspec.Struct, frozen=True):
    """The steps of a trace.

    Args:
        starts, ends: Windows, disjoint and ascending, ns; (steps,).
        host_starts, host_ends: The same steps on the driving thread, ns; (steps,).
        source: How they were found.
        confidence: 0..1 that they are the training's steps.
        warm_up: Number of leading steps that are not steady.
        device_side: Whether they end with their device work.
        notes: What the reader should know about how they were found and cut.
    """

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    host_starts: NDArray[np.int64]
    host_ends: NDArray[np.int64]
    source: Literal["marker", "hook", "periodicity", "whole-trace"]
    confidence: float
    warm_up: int
    device_side: bool
    notes: tuple[StepNote, ...]

    @property
    def durations_ns(self) -> NDArray[np.int64]:
        """Wall time of every step, ns; (steps,)."""
        result: NDArray[np.int64] = self.ends - self.starts
        return result

    @property
    def steady(self) -> slice:
        """The steps that means are computed over."""
        return slice(self.warm_up, len(self.starts))

    def first(self, count: int) -> StepTable:
        """The first steps."""
        windows = (self.starts, self.ends, self.host_starts, self.host_ends)
        starts, ends, host_starts, host_ends = (column[:count] for column in windows)
        return replace(self, starts=starts, ends=ends, host_starts=host_starts, host_ends=host_ends)

    def in_steady(self, times_ns: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Mask of the times in a steady step, not between two of them; (times,)."""
        inside: NDArray[np.bool_] = (
            windows_at(times_ns, self.starts[self.steady], self.ends[self.steady]) != NULL
        )
        return inside


def steady_mask(steps: StepTable, times_ns: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Mask of the times in a steady step; (times,).

    Args:
        steps: The steps.
        times_ns: Ascending; (times,).
    """
    windows = np.stack([steps.starts, steps.ends], axis=1)[steps.steady]
    lengths = np.diff(np.searchsorted(times_ns, windows.ravel()), prepend=0, append=len(times_ns))
    return np.repeat(np.arange(len(lengths)) % 2 == 1, lengths)


def find_steps(trace: Trace, threads: Threads, nesting: Nesting, launches: Launches) -> StepTable:
    """Find the steps by the best evidence that the trace has."""
    markers = _marked(trace, threads)
    if markers is not None:
        # If the steps were also logged, the traced ones are a sample of them and leave gaps.
        confidence, notes = (1.0, ()) if len(trace.marks) else _covering(trace, *markers)
        return _cut(trace, launches, *markers, source="marker", confidence=confidence, notes=notes)
    runs = find_runs(trace)
    if runs is not None:
        notes = (Cut.TRACED_RUNS,)
        return _cut(trace, None, *runs, source="marker", confidence=_OF_RUNS, notes=notes)
    if "whole-step" in trace.meta.signals:
        return _whole(trace, threads)
    period = find_period(trace, threads, nesting)
    if period is not None:
        return _cut(
            trace,
            None if period.on_device else launches,
            period.starts,
            period.ends,
            source="periodicity",
            confidence=period.confidence,
            notes=(period.note,),
        )
    return _whole(trace, threads)


def _covering(
    trace: Trace, starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[float, tuple[StepNote, ...]]:
    """Confidence in markers, and a note if they leave out a part of the loop."""
    left_out = 1 - int((ends - starts).sum()) / int(ends[-1] - starts[0])
    if left_out <= _MOST_BETWEEN:
        return 1.0, ()
    if "whole-step" in trace.meta.signals:
        return _OF_RUNS, (Cut.TRACED_RUNS,)
    return 1 - left_out, (BetweenMarkers(left_out),)


def _marked(trace: Trace, threads: Threads) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    rows = rows_of(trace, (Kind.STEP,))
    rows = rows[trace.slices.track[rows] == threads.driving]
    rows = rows[trace.slices.dur_ns[rows] > 0]
    if not len(rows):
        return None
    starts, ends = trace.slices.start_ns[rows], trace.ends(rows)
    # A marker inside another one (a user's 'step 3' within the profiler's) is not a second step;
    # one that begins a rounding error before the last one's end is.
    reached = np.append(starts[0], np.maximum.accumulate(ends)[:-1])
    outer = starts + (ends - starts) // 2 >= reached
    return np.maximum(starts, reached)[outer], ends[outer]


def _whole(trace: Trace, threads: Threads) -> StepTable:
    """The whole trace as one step, without a lead-in that belongs to work outside the record.

    A trace cut out of a longer run begins with the host waiting for, or launching behind, device
    work that is not in it. Idle time before the first recorded device work therefore counts only if
    the host initialises something or prepares a batch meanwhile.
    """
    slices = trace.slices
    if not len(slices):
        return _one_step(0, 0, 0.0, Cut.NOTHING_RECORDED)
    start, end = int(slices.start_ns.min()), trace.last_end_ns
    if "whole-step" in trace.meta.signals:
        return _one_step(start, end, _OF_RUNS, Cut.ONE_RUN)
    device = rows_of(trace, BUSY_KINDS, of_role(trace, Role.STREAM))
    if len(device):
        first, last = int(slices.start_ns[device[0]]), int(trace.ends(device).max())
        if not _has_a_cause(trace, threads, start, first):
            return _one_step(first, last, 0.0, Cut.WHOLE_TRACE, Cut.DEVICE_WORK_ONLY)
    elif (inner := _without_outer_waits(trace)) is not None:
        return _one_step(*inner, 0.0, Cut.WHOLE_TRACE, Cut.WITHOUT_PROFILERS_WAITS)
    return _one_step(start, end, 0.0, Cut.WHOLE_TRACE)


def _without_outer_waits(trace: Trace) -> tuple[int, int] | None:
    """First and last time of a trace between the waits for a device that did nothing.

    A profiler waits for the device when it starts and stops. None if there is no such wait.
    """
    on_host = of_role(trace, Role.HOST_THREAD)
    ops, waits = (rows_of(trace, (kind,), on_host) for kind in (Kind.OP, Kind.SYNC))
    if not len(ops) or not len(waits):
        return None
    first, last = int(trace.slices.start_ns[ops[0]]), int(trace.ends(ops).max())
    before, after = trace.ends(waits) <= first, trace.slices.start_ns[waits] >= last
    if not (before | after).any():
        return None
    start, end = int(trace.slices.start_ns.min()), trace.last_end_ns
    if before.any():
        start = int(trace.ends(waits[before]).max())
    if after.any():
        end = int(trace.slices.start_ns[waits[after]].min())
    return start, end


def _one_step(start: int, end: int, confidence: float, *notes: StepNote) -> StepTable:
    starts, ends = np.asarray([start]), np.asarray([end])
    return StepTable(starts, ends, starts, ends, "whole-trace", confidence, 0, False, notes)


def _has_a_cause(trace: Trace, threads: Threads, start: int, end: int) -> bool:
    """Whether the host spends most of a span in set-up calls or in fetching a batch."""
    kinds, durations = (Kind.RUNTIME, Kind.LAUNCH, Kind.COMPILE), trace.slices.dur_ns
    calls = rows_of(trace, kinds, of_role(trace, Role.HOST_THREAD))
    fetches = rows_of(trace, (Kind.INPUT,), of_threads(trace, threads.all))
    causes = np.append(calls[durations[calls] >= FIRST_USE_NS], fetches)
    caused = intervals_of(trace, causes) & Intervals.single(start, end)
    return caused.total_ns > (end - start) / 2


def _cut(
    trace: Trace,
    launches: Launches | None,
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    *,
    source: Literal["marker", "periodicity"],
    confidence: float,
    notes: Sequence[StepNote] = (),
) -> StepTable:
    """Move the bounds of steps to the end of their device work, if the host's bounds mislead.

    Without launches the bounds are the device's own.
    """
    bounds, lost = None, 0
    if launches is not None:
        launched = find_launched(trace, launches)
        kept, bounds, lost_ends = _on_device(trace, launches, launched, starts, ends)
        starts, ends = starts[:kept], ends[:kept]
        notes = notes if lost_ends is None else (*notes, lost_ends)
        lost = without_first_work(launched, starts, ends)
    device_side = bounds is not None and (
        _lags(starts, ends, *bounds) or _waits_first(trace, starts, ends, int(bounds[0][0]))
    )
    if device_side and bounds is not None and _is_remainder(starts, ends, *bounds):
        device_side, confidence = False, confidence / 2
        notes = (*notes, Cut.DEVICE_BEHIND)
    new_starts, new_ends = bounds if bounds is not None and device_side else (starts, ends)
    if device_side:
        notes = (*notes, Cut.AT_DEVICE_ENDS)
    warm_up = max(count_warm_up(new_ends - new_starts), _walked(trace, starts))
    if lost > warm_up:
        warm_up = lost
        notes = (*notes, Cut.FIRST_STEPS_LOST)
    return StepTable(
        new_starts, new_ends, starts, ends, source, confidence, warm_up, device_side, tuple(notes)
    )


def _on_device(
    trace: Trace,
    launches: Launches,
    launched: Launched,
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
) -> tuple[int, Bounds | None, StepNote | None]:
    """Number of steps to keep, their bounds on the device, and why some have none.

    If the record of the device ends before the work of every step does, there are no bounds on the
    device: the steps on the host during which the device was recorded remain.
    """
    kept = with_last_work(launched, starts, ends)
    if kept == len(starts):
        return kept, _device_bounds(trace, launches, starts, ends), None
    if kept:
        bounds = _device_bounds(trace, launches, starts[:kept], ends[:kept])
        return kept, bounds, Cut.LAST_STEPS_LOST
    recorded = int((ends <= trace.ends(launches.device_rows).max()).sum())
    return recorded or len(starts), None, Cut.DEVICE_ENDS_LOST


def _lags(
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    device_starts: NDArray[np.int64],
    device_ends: NDArray[np.int64],
) -> bool:
    """Whether the device falls behind, so that the host's steps are not the training's.

    A constant lag shifts the steps but does not change their lengths; then the host's bounds stay.
    The first step is not compared, because the device may still run earlier work in it.
    """
    if len(starts) < _FEWEST_STEPS:
        window = int(ends[-1] - starts[0])
        return bool(device_ends[-1] - ends[-1] > MISLEADING_LAG * window)
    host = float((ends - starts)[1:].mean())
    device = float((device_ends - device_starts)[1:].mean())
    return abs(device - host) > MISLEADING_LAG * host


def _is_remainder(
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    device_starts: NDArray[np.int64],
    device_ends: NDArray[np.int64],
) -> bool:
    """Whether a step on the device is far shorter than its marker: the usual one, or one of few."""
    ratio = (device_ends - device_starts) / np.maximum(ends - starts, 1)
    usual = ratio.min() if len(ratio) < _FEWEST_STEPS else np.median(ratio)
    return bool(usual < _REMAINDER)


def _waits_first(
    trace: Trace, starts: NDArray[np.int64], ends: NDArray[np.int64], device_start: int
) -> bool:
    """Whether few steps begin with the host waiting for device work launched before them.

    If it does something else meanwhile, such as fetching a batch, that is part of the step.
    """
    begin, late_ns = int(starts[0]), device_start - int(starts[0])
    if len(starts) >= _FEWEST_STEPS or late_ns <= MISLEADING_LAG * int(ends[-1] - begin):
        return False
    waits = intervals_of(trace, rows_of(trace, (Kind.SYNC,), of_role(trace, Role.HOST_THREAD)))
    return (waits & Intervals.single(begin, device_start)).total_ns > late_ns / 2


def _device_bounds(
    trace: Trace, launches: Launches, starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> Bounds | None:
    """Windows [B(i-1), B(i)) with B(i) = the later of host end and device end of step i."""
    work, calls = launches.joined
    step = windows_at(trace.slices.start_ns[calls], starts, ends)
    inside = step != NULL
    if not inside.any():
        return None
    work_end = np.full(len(starts), np.iinfo(np.int64).min)
    np.maximum.at(work_end, step[inside], trace.ends(work[inside]))
    new_ends = np.maximum.accumulate(np.maximum(work_end, ends))
    new_starts = np.maximum(
        starts, np.concatenate([[_backlog_end(trace, launches, starts[0])], new_ends[:-1]])
    )
    # A backlog on another stream may outlast the first step.
    return np.minimum(new_starts, new_ends), new_ends


def _backlog_end(trace: Trace, launches: Launches, start: int) -> int:
    """End of the device work launched before the first step, at least the start of that step."""
    starts, rows, calls = trace.slices.start_ns, launches.device_rows, launches.call_row
    own = np.flatnonzero((calls != NULL) & (starts[calls] >= start))
    if len(own):
        rows = rows[starts[rows] < starts[rows[own[0]]]]
    return int(trace.ends(rows).max(initial=start))


def _walked(trace: Trace, starts: NDArray[np.int64]) -> int:
    """Number of leading steps that took longer because stepwhy followed their gradients."""
    walks = rows_of_kinds(trace, "gradient-walk")
    if not len(walks):
        return 0
    walked = int(np.searchsorted(starts, trace.events.start_ns[walks].max(), side="right"))
    return walked if walked <= _LARGEST_WARM_UP * len(starts) else 0


def count_warm_up(durations_ns: NDArray[np.int64]) -> int:
    """Number of leading steps over `WARM_UP_FACTOR` times the median of all later ones."""
    count = len(durations_ns)
    if count < _FEWEST_STEPS:
        return 0
    warm = 0
    while warm < int(count * _LARGEST_WARM_UP) and durations_ns[warm] > WARM_UP_FACTOR * np.median(
        durations_ns[warm + 1 :]
    ):
        warm += 1
    return warm
