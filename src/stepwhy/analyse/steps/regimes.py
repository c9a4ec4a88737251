"""The stretches of a run between lasting changes of its step time.

A mean over both sides of a lasting change is not the time of any step. The log records when a
change was noticed; the step times show where it is. Compilations that become rarer are no such
change: what they cost per step is a mean over all steps. A change in how long the process waits for
cores that other programs use counts as well, if the step time changes with it.

The result describes one stretch: the one that took most time, of those in which steps were traced.
If other programs slowed that one down, it is the stretch that they slowed down least.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from msgspec.structs import replace

from stepwhy.analyse.steps.contention import contention, differs, least_contended
from stepwhy.analyse.steps.sampled_lines import FEWEST_SAMPLES
from stepwhy.analyse.steps.stalls import events_in, stalling
from stepwhy.analyse.steps.step_search import count_warm_up
from stepwhy.base.columns.intervals import Intervals
from stepwhy.trace import NULL, Columns, Kind, SampleRole

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from stepwhy.analyse.steps.step_search import StepTable
    from stepwhy.trace import Trace

# The observer compares blocks of steps, and notices a change after eight blocks in a row. The
# search includes some blocks before them. Where a change is noticed from outside, the event has the
# number of steps since then; as many before them are searched as well.
_BLOCK_STEPS = 8
_BLOCK_NS = 200_000_000
_BLOCKS_SEARCHED = 16
# With fewer steps on one side, its median is not reliable.
_SHORTEST = 8
# Samples with less of their time inside the stretch belong to both sides.
_MOSTLY = 0.9
_MOSTLY_IF_FEW = 0.6
# Samples with more of their time in profiled steps than this do not show the training as it is.
_MOSTLY_PROFILED = 0.5
# Where there are few others, they do up to this share: a short run may have no second stretch.
_PROFILED_IF_FEW = 0.75
# Stretches whose medians differ by less than this factor do mostly the same.
_SIMILAR = 1.5
# Without their wait for cores, stretches of the same work differ by less than this factor: the
# share of its time that a process waits is not exactly that by which a step is longer.
_RELATED = 3.0
# If medians differ by less, the usual step is the same: only rare steps have changed.
_SMALLEST_CHANGE = 0.1
# Share of the time of a stretch that its steps take without compilations and checkpoints. With less
# they do not tell whether the step changes, or compiling becomes rarer.
_LEAST_OWN = 0.5


class Regime(msgspec.Struct, frozen=True):
    """One stretch.

    Args:
        first: Its first row of `marks`.
        end: The row after its last one.
        median_ns: Median of its unprofiled steps; None if all were profiled.
        total_ns: Wall time of its steps.
        traced: Number of recorded steps in it.
        contention: Share of its runnable time in which other programs kept the process waiting for
            a core, 0..1; None if unknown.
    """

    first: int
    end: int
    median_ns: int | None
    total_ns: int
    traced: int
    contention: float | None = None

    @property
    def rows(self) -> slice:
        """Its rows of `marks`."""
        return slice(self.first, self.end)


class Regimes(msgspec.Struct, frozen=True):
    """The stretches of a run in order, at least one.

    Args:
        all: The stretches; together all rows of `marks`.
        described: Index of the one that the result is about.
    """

    all: tuple[Regime, ...]
    described: int

    @property
    def current(self) -> Regime:
        """The stretch that the result is about."""
        return self.all[self.described]


def find_regimes(trace: Trace, recorded: StepTable) -> Regimes:
    """The stretches of a run.

    Args:
        trace: The trace, with `marks` and `events`.
        recorded: The steps that were traced.
    """
    noticed = [0, *_splits(trace), len(trace.marks)]
    contended = [row for part in pairwise(noticed) for row in _contended_splits(trace, *part)]
    bounds = sorted([*noticed, *contended])
    regimes = tuple(_regime(trace, recorded, first, end) for first, end in pairwise(bounds))
    return Regimes(regimes, _described(trace, recorded, regimes))


def _described(trace: Trace, recorded: StepTable, regimes: Sequence[Regime]) -> int:
    """Index of the stretch that the result is about."""
    longest = max(range(len(regimes)), key=lambda i: (regimes[i].traced > 0, regimes[i].total_ns))
    busy = regimes[longest]
    for place in least_contended([regime.contention for regime in regimes], longest):
        calm = regimes[place]
        is_long = calm.end - calm.first >= 2 * _SHORTEST
        if is_long and (_is_explained(calm, busy) or _run_alike(trace, recorded, calm, busy)):
            return place
    return longest


def _is_explained(calm: Regime, busy: Regime) -> bool:
    """Whether the wait for cores explains most of the difference in length between two stretches.

    Where no step of the calm one was traced, it has to explain nearly all of it.
    """
    if calm.median_ns is None or busy.median_ns is None:
        return False
    own_ns = [r.median_ns * (1 - (r.contention or 0.0)) for r in (calm, busy) if r.median_ns]
    return max(own_ns) <= (_RELATED if calm.traced else _SIMILAR) * min(own_ns)


def _run_alike(trace: Trace, recorded: StepTable, calm: Regime, busy: Regime) -> bool:
    """Whether steps of two stretches were traced that run the same operations, on the same shapes.

    Without shapes, one of them may have worked on larger arrays. With equal ones, contention
    explains their difference even if the wait for cores does not: threads that spin while they wait
    for one that has no core seem to work.
    """
    calm_steps, busy_steps = (_operations(trace, recorded, one) for one in (calm, busy))
    return not calm_steps.isdisjoint(busy_steps)


def _operations(trace: Trace, recorded: StepTable, regime: Regime) -> set[bytes]:
    """What each traced step of a stretch runs: how often it runs each operation on which shapes."""
    inside = _inside(trace, recorded, regime.first, regime.end)
    rows = np.flatnonzero(trace.is_kind(Kind.OP))
    starts = trace.slices.start_ns[rows]
    shapes = np.full(len(trace.slices), NULL, dtype=np.int32)
    shapes[trace.operands.slice] = trace.operands.shapes
    pairs = np.stack([trace.slices.name[rows], shapes[rows]], axis=1)
    bounds = zip(recorded.host_starts[inside], recorded.host_ends[inside], strict=True)
    within = (pairs[(starts >= start) & (starts < end)] for start, end in bounds)
    known = (part for part in within if (part[:, 1] != NULL).any())
    return {np.sort(part.view(np.int64).ravel()).tobytes() for part in known}


def within(trace: Trace, recorded: StepTable, regimes: Regimes) -> StepTable:
    """The recorded steps of the described stretch; all if it is the only one.

    If none of its steps was recorded, those of the least contended stretch that has any.
    """
    if len(regimes.all) == 1:
        return recorded
    source = regimes.current
    if not source.traced:
        traced = [regime for regime in regimes.all if regime.traced]
        source = min(traced, key=lambda r: r.contention or 0.0, default=source)
    inside = _inside(trace, recorded, source.first, source.end)
    if not inside.any():
        return recorded
    starts, ends = recorded.starts[inside], recorded.ends[inside]
    return replace(
        recorded,
        starts=starts,
        ends=ends,
        host_starts=recorded.host_starts[inside],
        host_ends=recorded.host_ends[inside],
        warm_up=count_warm_up(ends - starts),
    )


def samples_within(trace: Trace, regimes: Regimes) -> Trace:
    """The trace with only the stack samples of unprofiled steps in the described stretch.

    If it has too few, those of stretches with similar step times count as well, and then those that
    were only mostly taken in it. Those before the first step show no step. Samples in profiled
    steps show the profiler, and the observer writing its records.
    """
    samples = trace.samples
    if not len(samples):
        return trace
    in_steps = samples.role != SampleRole.STARTUP
    if not len(trace.marks):
        return _only(trace, in_steps)
    kept = in_steps & _hardly_profiled(trace, _MOSTLY_PROFILED)
    if samples.count[kept].sum() < FEWEST_SAMPLES:
        kept = in_steps & _hardly_profiled(trace, _PROFILED_IF_FEW)
    if len(regimes.all) == 1:
        return _only(trace, kept)
    inside = kept & _mostly_in(trace, [regimes.current])
    if samples.count[inside].sum() < FEWEST_SAMPLES:
        inside = kept & _mostly_in(trace, [regimes.current, *_similar(regimes)])
    if samples.count[inside].sum() < FEWEST_SAMPLES:
        inside = kept & _mostly_in(trace, [regimes.current], _MOSTLY_IF_FEW)
    return _only(trace, inside)


def _hardly_profiled(trace: Trace, most: float) -> NDArray[np.bool_]:
    """Mask of the samples with at most a share of their time in profiled steps; (samples,)."""
    samples = trace.samples
    profiled = Intervals.of(*_times(trace, np.flatnonzero(trace.marks.profiled == 1)))
    time_ns = profiled.within(samples.start_ns, samples.end_ns)
    hardly = time_ns <= most * (samples.end_ns - samples.start_ns)
    found: NDArray[np.bool_] = hardly | (samples.end_ns == NULL)
    return found


def _mostly_in(
    trace: Trace, regimes: Sequence[Regime], least: float = _MOSTLY
) -> NDArray[np.bool_]:
    """Mask of the samples that were taken in some stretches, or at an unknown time; (samples,).

    Args:
        trace: The trace, with `samples` and `marks`.
        regimes: The stretches.
        least: Share of a sample's time that has to be inside.
    """
    samples = trace.samples
    common = np.zeros(len(samples), dtype=np.int64)
    for regime in regimes:
        starts, ends = _times(trace, regime.rows)
        inside = np.minimum(samples.end_ns, ends.max()) - np.maximum(samples.start_ns, starts.min())
        common += np.maximum(inside, 0)
    mostly: NDArray[np.bool_] = common >= least * (samples.end_ns - samples.start_ns)
    mostly |= samples.end_ns == NULL
    return mostly


def _similar(regimes: Regimes) -> Iterator[Regime]:
    """The other stretches whose steps take about as long, so that they do much the same."""
    usual = regimes.current.median_ns
    for other in regimes.all:
        if other is not regimes.current and usual and other.median_ns:
            ratio = max(usual, other.median_ns) / min(usual, other.median_ns)
            if ratio <= _SIMILAR:
                yield other


def _only(trace: Trace, kept: NDArray[np.bool_]) -> Trace:
    """The trace with some of its stack samples."""
    columns = {name: values[kept] for name, values in vars(trace.samples).items()}
    return replace(trace, samples=Columns(**columns))


def _times(
    trace: Trace, rows: slice | NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Starts and ends of some observed steps."""
    starts = trace.marks.start_ns[rows]
    return starts, starts + trace.marks.dur_ns[rows]


def _splits(trace: Trace) -> list[int]:
    """The rows of `marks` at which a new stretch begins, ascending."""
    events, marks = trace.events, trace.marks
    changes = np.flatnonzero(np.isin(events.kind, trace.strings_where(["change"])))
    noticed = events.start_ns[changes] + events.dur_ns[changes]
    order = np.argsort(noticed, kind="stable")
    ends = np.searchsorted(marks.start_ns, noticed[order], side="left").tolist()
    splits: list[int] = []
    for end, steps in zip(ends, events.count[changes][order].tolist(), strict=True):
        most = 2 * steps if steps > 0 else None
        split = _split(trace, splits[-1] if splits else 0, end, most)
        if split is not None:
            splits.append(split)
    return splits


def _contended_splits(trace: Trace, first: int, end: int) -> list[int]:
    """Rows in [first, end) at which other programs begin or end to take the cores, ascending."""
    if not _contention(trace, first, end):
        return []
    split = _split(trace, first, end, end - first)
    if split is None or not differs(
        *(_contention(trace, *p) for p in pairwise([first, split, end]))
    ):
        return []
    before, after = (_contended_splits(trace, *part) for part in pairwise([first, split, end]))
    return [*before, split, *after]


def _contention(trace: Trace, first: int, end: int) -> float | None:
    """Contention by other programs in rows [first, end) of `marks`."""
    if first == end:
        return None
    starts, ends = _times(trace, slice(first, end))
    return contention(trace, (int(starts.min()), int(ends.max())))


def _split(trace: Trace, first: int, end: int, most: int | None = None) -> int | None:
    """The row in [first, end) at which the step time changes; None if it does not change.

    The row minimises the squared deviations of the logarithms from the means of both sides. The
    longest and shortest steps are clipped first, so that a single step does not decide.

    Args:
        trace: The trace, with `marks`.
        first: The first row.
        end: The row after the last one.
        most: How many of the last steps to search; None for as many as the observer compares.
    """
    rows = np.arange(first, end)
    rows = rows[trace.marks.profiled[first:end] == 0]
    durations = np.maximum(trace.marks.dur_ns[rows], 1)
    rows, durations = (values[-(most or _searched(durations)) :] for values in (rows, durations))
    count = len(rows)
    if count < 2 * _SHORTEST:
        return None
    own = durations - _stalled_ns(trace, rows)
    logs = np.log(np.clip(own, *np.percentile(own, [5, 95])))
    before = np.arange(_SHORTEST, count - _SHORTEST + 1)
    gap = np.cumsum(logs)[before - 1] - before * logs.mean()
    place = int(before[np.argmax(gap**2 / (before * (count - before)))])
    sides = slice(place), slice(place, count)
    if any(own[side].sum() < _LEAST_OWN * durations[side].sum() for side in sides):
        return None
    ratio = float(np.divide(*(np.median(own[side]) for side in sides)))
    return int(rows[place]) if abs(np.log(ratio)) >= np.log1p(_SMALLEST_CHANGE) else None


def _stalled_ns(trace: Trace, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Time of each of some steps in which it was compiled or saved, ns; (steps,)."""
    stalled = events_in(trace, rows, stalling(trace))
    found = np.zeros(len(rows), dtype=np.int64)
    found[: len(stalled.steps)] = stalled.inside_ns
    most: NDArray[np.int64] = np.minimum(found, trace.marks.dur_ns[rows] - 1)
    return most


def _searched(durations_ns: NDArray[np.int64]) -> int:
    """Number of steps, before the one at which a change was noticed, to search for the change."""
    if not len(durations_ns):
        return 1
    usual = float(np.median(durations_ns[-_SHORTEST:]))
    return _BLOCKS_SEARCHED * max(_BLOCK_STEPS, round(_BLOCK_NS / usual))


def _regime(trace: Trace, recorded: StepTable, first: int, end: int) -> Regime:
    durations = trace.marks.dur_ns[first:end]
    free = durations[trace.marks.profiled[first:end] == 0]
    return Regime(
        first,
        end,
        round(float(np.median(free[count_warm_up(free) :]))) if len(free) else None,
        int(durations.sum()),
        int(_inside(trace, recorded, first, end).sum()),
        _contention(trace, first, end),
    )


def _inside(trace: Trace, recorded: StepTable, first: int, end: int) -> NDArray[np.bool_]:
    """Mask of the recorded steps whose middle is in rows [first, end) of `marks`; (steps,)."""
    if recorded.source == "whole-trace" or first == end:
        return np.zeros(len(recorded.starts), dtype=bool)
    starts = trace.marks.start_ns
    middle = recorded.host_starts + (recorded.host_ends - recorded.host_starts) // 2
    inside: NDArray[np.bool_] = middle >= starts[first] if first else np.ones_like(middle, bool)
    if end < len(starts):
        inside &= middle < starts[end]
    return inside
