"""Joins traced calls of `Session.run` into traced steps of a TensorFlow 1 loop.

Each traced call is a window of its own. If a step has several calls, their windows are laid end to
end and become one step; the Python code between the calls is known from the step log.

TensorFlow prepares a call with new fetches, or of a graph that has grown, before the first
operation starts: it extends, prunes, places and optimises the graph.

After the last operation, the runtime collects and serialises the trace and Python parses it. With a
large graph that takes as long as the training itself. It is not part of the step, so it is cut out
and placed after the step.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.trace import DeviceKind, Kind, Meta, Role, TraceBuilder
from stepwhy.trace.kinds import HAND_OVER, NEXT_RUN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from stepwhy.read.formats.run_directory.step_log import Line
    from stepwhy.trace import Trace

_PREPARE = (Kind.COMPILE, "prepare the graph")
# Untraced runs for comparison: the nearest ones, because the speed of machines varies over time.
_NEIGHBOURS = 9
_FEWEST_NEIGHBOURS = 3


class RunWindow(msgspec.Struct, frozen=True):
    """One traced run.

    Args:
        trace: Its trace, whose only step is the run.
        start_ns: When the driving thread entered `Session.run`, as the step log has it.
        end_ns: When it left.
    """

    trace: Trace
    start_ns: int
    end_ns: int


class _Traced(msgspec.Struct, frozen=True):
    """A run in the log, with its window."""

    line: Line
    window: RunWindow


def join_runs(windows: Sequence[RunWindow], steps: Sequence[tuple[list[Line], int]]) -> list[Trace]:
    """The traces of fully traced steps, with the runs of each step laid end to end.

    Steps with more or fewer runs than most steps (such as one that saves a checkpoint), and steps
    traced before the loop was warm, are left out if there are others. If no step was traced in
    full, returns the windows that start a step; if there are none, all windows.

    Args:
        windows: The traced runs.
        steps: The runs of every step in the log, and the end of the step.
    """
    by_start = {w.start_ns: w for w in windows}
    traced = [
        [_Traced(run, by_start[run.start_ns]) for run in runs if run.start_ns in by_start]
        for runs, _ in steps
    ]
    runs = [run for step in traced for run in step]
    handing_over = _handing_over(runs, [r for rs, _ in steps for r in rs])
    extras = _Extras(_preparing(runs), handing_over, _fed_next(steps))
    chosen = _choose(steps, traced)
    if not chosen:
        return [w.trace for w in windows]
    return [trace for step in chosen for trace in _end_to_end(step, extras)]


def _fed_next(steps: Sequence[tuple[list[Line], int]]) -> dict[int, dict[str, int]]:
    """What the call after each step is fed with, as far as it is known; by the step's start."""
    return {
        runs[0].start_ns: after[0].fed
        for (runs, end_ns), (after, _) in pairwise(steps)
        if after[0].fed is not None and after[0].start_ns == end_ns
    }


def _choose(
    steps: Sequence[tuple[list[Line], int]], traced: Sequence[list[_Traced]]
) -> list[list[_Traced]]:
    """The traced runs of each step to explain."""
    pairs = [(runs, t) for (runs, _), t in zip(steps, traced, strict=True) if t]
    whole = [t for runs, t in pairs if len(t) == len(runs)]
    usual = Counter(len(runs) for runs, _ in steps).most_common(1)
    alike = [t for t in whole if len(t) == usual[0][0]]
    begun = [t[:1] for runs, t in pairs if t[0].line is runs[0]]
    chosen = alike or whole or begun
    return [t for t in chosen if not t[0].line.early] or chosen


def _preparing(runs: Sequence[_Traced]) -> dict[int, int]:
    """Time that each run took to prepare the graph, by the start of the run; ns.

    The time before the first operation also includes copying what is fed. The minimum of that time
    over runs of the same fetches without preparation, or else over all runs, is subtracted.
    """
    usual: dict[int, int] = {}
    before = {run.window.start_ns: _before_ns(run.window) for run in runs}
    for run in runs:
        if not run.line.fresh:
            ns = before[run.window.start_ns]
            usual[run.line.signature] = min(ns, usual.get(run.line.signature, ns))
    least = min(usual.values(), default=0)
    return {
        run.window.start_ns: before[run.window.start_ns] - usual.get(run.line.signature, least)
        for run in runs
        if run.line.fresh
    }


def _handing_over(runs: Sequence[_Traced], log: Sequence[Line]) -> dict[int, int]:
    """Time that each traced run took to hand over its trace, by the start of the run; ns.

    After the last operation, an untraced run needs at most the CPU time of its thread. What a
    traced run needs beyond that is due to the trace. If the thread may also wait for unrecorded
    work (on an accelerator or a server), the excess is limited to the total slowdown of the run.

    Args:
        runs: The traced runs.
        log: All runs of the log.
    """
    free = [run for run in log if not run.profiled and run.cpu_ns is not None]
    found = {}
    for run in runs:
        alike = [line for line in free if line.signature == run.line.signature]
        alike.sort(key=lambda line: abs(line.start_ns - run.line.start_ns))
        near = alike[:_NEIGHBOURS]
        if len(near) >= _FEWEST_NEIGHBOURS:
            found[run.window.start_ns] = _excess_ns(run.window, near)
    return found


def _excess_ns(window: RunWindow, free: Sequence[Line]) -> int:
    """Excess time of a traced run after its last operation, compared with untraced runs."""
    busy_ns = round(median(line.cpu_ns or 0 for line in free))
    usual_ns = round(median(line.end_ns - line.start_ns for line in free))
    # Time from the end of the last operation to the end of the run, ns; 0 if unknown.
    inside = ~_is_run(window.trace.slices.kind)
    after_ns = max(window.end_ns - int(window.trace.end_ns[inside].max()), 0) if inside.any() else 0
    excess_ns = after_ns - busy_ns
    trace = window.trace
    # Work on CPU executors of this process is recorded, each operation of it.
    is_cpu = (trace.devices.kind == DeviceKind.CPU).all()
    is_all_recorded = bool(is_cpu) and not any(
        "/job:" in trace.string(int(n)) for n in trace.devices.name
    )
    if not is_all_recorded:
        excess_ns = min(excess_ns, window.end_ns - window.start_ns - usual_ns)
    return max(excess_ns, 0)


def _before_ns(window: RunWindow) -> int:
    """Time from the start of a run to its first operation, ns; 0 if unknown."""
    slices = window.trace.slices
    inside = ~_is_run(slices.kind)
    return max(int(slices.start_ns[inside].min()) - window.start_ns, 0) if inside.any() else 0


def _is_run(kind: NDArray[np.int8]) -> NDArray[np.bool_]:
    """Whether slices stand for the run itself, not for work inside it; (slices,)."""
    result: NDArray[np.bool_] = (kind == Kind.STEP) | (kind == Kind.ANNOTATION)
    return result


class _Extras(msgspec.Struct, frozen=True):
    """Time of runs beyond their usual work, by the start of the run; ns.

    Args:
        preparing: Preparing the graph before the first operation.
        handing_over: Handing over the trace after the last operation.
        fed_next: Fingerprints, by name, of what the call after a step is fed with; by its start.
    """

    preparing: Mapping[int, int]
    handing_over: Mapping[int, int]
    fed_next: Mapping[int, Mapping[str, int]]


def _end_to_end(step: Sequence[_Traced], extras: _Extras) -> Iterator[Trace]:
    """The traces of one step, shifted so that each run starts where the previous one ended."""
    first = step[0].window
    at_ns = first.start_ns
    builder = TraceBuilder()
    for window in (run.window for run in step):
        slices = window.trace.slices
        # Replaces the columns, as they may be read-only.
        trace = window.trace
        by_ns = at_ns - window.start_ns
        trace.slices.start_ns = trace.slices.start_ns + by_ns
        trace.counters.time_ns = trace.counters.time_ns + by_ns
        trace.allocations.time_ns = trace.allocations.time_ns + by_ns
        _add(builder, window, _PREPARE, at_ns, extras.preparing.get(window.start_ns, 0))
        end_ns = at_ns + window.end_ns - window.start_ns
        at_ns = end_ns - extras.handing_over.get(window.start_ns, 0)
        is_run = _is_run(slices.kind)
        until_ns = np.minimum(slices.dur_ns, at_ns - slices.start_ns)
        slices.dur_ns = np.where(is_run, until_ns, slices.dur_ns)
        if window is not first:
            slices.kind = np.where(slices.kind == Kind.STEP, np.int8(Kind.ANNOTATION), slices.kind)
    slices = first.trace.slices
    slices.dur_ns = np.where(slices.kind == Kind.STEP, at_ns - first.start_ns, slices.dur_ns)
    for window in (run.window for run in step):
        behind_ns = extras.handing_over.get(window.start_ns, 0)
        _add(builder, window, (Kind.PROFILER, HAND_OVER), at_ns, behind_ns)
        at_ns += behind_ns
    _add_fed(builder, first, extras.fed_next.get(first.start_ns, {}))
    yield from (run.window.trace for run in step)
    extra = builder.finish(Meta("step-log"))
    if len(extra.slices):
        yield extra


def _add(
    builder: TraceBuilder, run: RunWindow, what: tuple[Kind, str], at_ns: int, dur_ns: int
) -> None:
    """Add a slice for time of a run beyond its usual work, if there is any."""
    if dur_ns > 0:
        builder.slice(_driving_thread(builder, run.trace), *what, at_ns, dur_ns)


def _add_fed(builder: TraceBuilder, first: RunWindow, fed: Mapping[str, int]) -> None:
    """Add what the call after a step is fed with."""
    if fed:
        track = _driving_thread(builder, first.trace)
        row = builder.slice(track, Kind.PROFILER, NEXT_RUN, first.start_ns, 0)
        for name, mark in fed.items():
            named = builder.intern(name)
            builder.add("session_values", slice=row, fed=2, name=named, fingerprint=mark)


def _driving_thread(builder: TraceBuilder, trace: Trace) -> int:
    """The track of the builder that corresponds to the thread of a run."""
    rows = trace.rows(Kind.STEP, Kind.ANNOTATION, role=Role.HOST_THREAD)
    tracks, row = trace.tracks, trace.slices.track[rows[0]]
    return builder.track(
        Role.HOST_THREAD,
        trace.string(int(tracks.name[row])),
        process=int(tracks.process[row]),
        thread=int(tracks.thread[row]),
    )
