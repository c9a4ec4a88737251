"""From traced `Session.run`s to traced steps of a TensorFlow 1 loop.

Each traced run is a window of its own. A program that calls `run` several times per step is only
explained by all of them, so the runs of a step are laid end to end and become one step; the Python
between them is known from the step log.

A run of new fetches, or of a graph that has grown, is prepared before its first operation starts:
extended, pruned, placed, optimised. What it takes until then is more than such runs usually take.

A traced run ends with its trace: after the last operation the records are collected, written out by
the runtime and read again by Python, which takes as long as the training itself where the graph is
large. That is no part of the step, so it is taken out, and stands behind the step.
"""

from __future__ import annotations

from collections import Counter
from statistics import median
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.trace import DeviceKind, Kind, Meta, Role, TraceBuilder
from stepwhy.trace.kinds import HAND_OVER

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from stepwhy.importers.formats.run_directory.step_log import Line
    from stepwhy.trace import Trace

_PREPARE = (Kind.COMPILE, "prepare the graph")
# Untraced runs that say how long such a run takes: the nearest ones, as machines have moods.
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
    """A run of the log and its window."""

    line: Line
    window: RunWindow


def join_runs(windows: Sequence[RunWindow], steps: Sequence[tuple[list[Line], int]]) -> list[Trace]:
    """The windows of the steps of which every run was traced, each step's laid end to end.

    The wall time of a run is that of its usual step, so a traced step with more or fewer runs than
    most (one that saves a checkpoint) is left out, if it is not all there is, and so is one that
    was traced before the loop was known to be warm. Where no step was traced in full, the windows
    that begin one, as they are; else all.

    Args:
        windows: The traced runs.
        steps: The runs of every step of the log, and its end.
    """
    by_start = {w.start_ns: w for w in windows}
    traced = [
        [_Traced(run, by_start[run.start_ns]) for run in runs if run.start_ns in by_start]
        for runs, _ in steps
    ]
    runs = [run for step in traced for run in step]
    extras = _Extras(_preparing(runs), _handing_over(runs, [r for rs, _ in steps for r in rs]))
    chosen = _choose(steps, traced)
    if not chosen:
        return [w.trace for w in windows]
    return [trace for step in chosen for trace in _end_to_end(step, extras)]


def _choose(
    steps: Sequence[tuple[list[Line], int]], traced: Sequence[list[_Traced]]
) -> list[list[_Traced]]:
    """The traced runs of each step that is worth explaining."""
    pairs = [(runs, t) for (runs, _), t in zip(steps, traced, strict=True) if t]
    whole = [t for runs, t in pairs if len(t) == len(runs)]
    usual = Counter(len(runs) for runs, _ in steps).most_common(1)
    alike = [t for t in whole if len(t) == usual[0][0]]
    begun = [t[:1] for runs, t in pairs if t[0].line is runs[0]]
    chosen = alike or whole or begun
    return [t for t in chosen if not t[0].line.early] or chosen


def _preparing(runs: Sequence[_Traced]) -> dict[int, int]:
    """How long the preparation of a run took, by the start of the run; ns.

    Before the first operation a run also takes what it is fed, which is no preparation: the least
    that runs of these fetches take when nothing is prepared, or else that any run takes, is not
    counted.
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
    """How long each traced run took to hand over its trace, by the start of the run; ns.

    After its last operation an untraced run takes at most the CPU time of its thread, which waits
    in between; what a traced one takes longer is the trace's. Where the thread may also wait for
    what is not recorded (an accelerator, the answer of a server), no more of it counts than the run
    was slower in all.

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
    """By how much a traced run is longer at its end than runs that were not traced."""
    busy_ns = round(median(line.cpu_ns or 0 for line in free))
    usual_ns = round(median(line.end_ns - line.start_ns for line in free))
    excess_ns = _after_ns(window) - busy_ns
    if not _is_all_recorded(window.trace):
        excess_ns = min(excess_ns, window.end_ns - window.start_ns - usual_ns)
    return max(excess_ns, 0)


def _is_all_recorded(trace: Trace) -> bool:
    """Whether all work is on the executors of this process: then each operation is in the trace."""
    is_cpu = (trace.devices.kind == DeviceKind.CPU).all()
    return bool(is_cpu) and not any("/job:" in trace.string(int(n)) for n in trace.devices.name)


def _before_ns(window: RunWindow) -> int:
    """How long it takes from the start of a run until something runs in it, ns; 0 if unknown."""
    slices = window.trace.slices
    inside = ~_is_run(slices.kind)
    return max(int(slices.start_ns[inside].min()) - window.start_ns, 0) if inside.any() else 0


def _after_ns(window: RunWindow) -> int:
    """How long it takes from when nothing runs any more to the end of the run, ns; 0 if unknown."""
    inside = ~_is_run(window.trace.slices.kind)
    return max(window.end_ns - int(window.trace.end_ns[inside].max()), 0) if inside.any() else 0


def _is_run(kind: NDArray[np.int8]) -> NDArray[np.bool_]:
    """Whether slices are the run itself, not what happens in it; (slices,)."""
    result: NDArray[np.bool_] = (kind == Kind.STEP) | (kind == Kind.ANNOTATION)
    return result


class _Extras(msgspec.Struct, frozen=True):
    """What runs take beyond their usual work, by the start of the run; ns.

    Args:
        preparing: Until the first operation starts.
        handing_over: For their trace, after the last operation.
    """

    preparing: Mapping[int, int]
    handing_over: Mapping[int, int]


def _move(trace: Trace, by_ns: int) -> None:
    """Move a trace in time. Columns may be read-only, so each becomes another one."""
    trace.slices.start_ns = trace.slices.start_ns + by_ns
    trace.counters.time_ns = trace.counters.time_ns + by_ns
    trace.allocations.time_ns = trace.allocations.time_ns + by_ns


def _end_to_end(step: Sequence[_Traced], extras: _Extras) -> Iterator[Trace]:
    """The traces of one step, moved so that each run begins where the one before it ended."""
    first = step[0].window
    at_ns = first.start_ns
    builder = TraceBuilder()
    for window in (run.window for run in step):
        slices = window.trace.slices
        _move(window.trace, at_ns - window.start_ns)
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
    yield from (run.window.trace for run in step)
    extra = builder.finish(Meta("step-log"))
    if len(extra.slices):
        yield extra


def _add(
    builder: TraceBuilder, run: RunWindow, what: tuple[Kind, str], at_ns: int, dur_ns: int
) -> None:
    """Add what a run takes beyond its work, if it takes any time."""
    if dur_ns > 0:
        builder.slice(_driving_thread(builder, run.trace), *what, at_ns, dur_ns)


def _driving_thread(builder: TraceBuilder, trace: Trace) -> int:
    """The track that holds the run in a trace, in the trace that is being built."""
    rows = trace.rows(Kind.STEP, Kind.ANNOTATION, role=Role.HOST_THREAD)
    tracks, row = trace.tracks, trace.slices.track[rows[0]]
    return builder.track(
        Role.HOST_THREAD,
        trace.string(int(tracks.name[row])),
        process=int(tracks.process[row]),
        thread=int(tracks.thread[row]),
    )


__all__ = ["RunWindow", "join_runs"]
