"""From traced `Session.run`s to traced steps of a TensorFlow 1 loop.

Each traced run is a window of its own. A program that calls `run` several times per step is only
explained by all of them, so the runs of a step are laid end to end and become one step; the Python
between them is known from the step log.

A run of new fetches, or of a graph that has grown, is prepared before its first operation starts:
extended, pruned, placed, optimised. What it takes until then is more than such runs usually take.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepwhy.trace import Kind, Meta, Role, TraceBuilder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from stepwhy.engine.step_log import Line
    from stepwhy.trace import Trace


@dataclass(frozen=True, slots=True)
class RunWindow:
    """One traced run.

    Args:
        trace: Its trace, whose only step is the run.
        start_ns: When the driving thread entered `Session.run`, as the step log has it.
        end_ns: When it left.
    """

    trace: Trace
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class _Traced:
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
    preparing = _preparing([run for step in traced for run in step])
    chosen = _choose(steps, traced)
    if not chosen:
        return [w.trace for w in windows]
    return [trace for step in chosen for trace in _end_to_end(step, preparing)]


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


def _before_ns(window: RunWindow) -> int:
    """How long it takes from the start of a run until something runs in it, ns; 0 if unknown."""
    slices = window.trace.slices
    is_run = (slices.kind == Kind.STEP) | (slices.kind == Kind.ANNOTATION)
    if not is_run.any() or is_run.all():
        return 0
    return max(int(slices.start_ns[~is_run].min()) - window.start_ns, 0)


def _end_to_end(step: Sequence[_Traced], preparing: Mapping[int, int]) -> Iterator[Trace]:
    """The traces of one step, moved so that each run begins where the one before it ended."""
    first = step[0].window
    at_ns = first.start_ns
    builder = TraceBuilder()
    for window in (run.window for run in step):
        slices = window.trace.slices
        slices.start_ns -= window.start_ns - at_ns
        window.trace.counters.time_ns -= window.start_ns - at_ns
        duration_ns = preparing.get(window.start_ns, 0)
        if duration_ns > 0:
            track = _driving_thread(builder, window.trace)
            builder.slice(track, Kind.COMPILE, "prepare the graph", at_ns, duration_ns)
        at_ns += window.end_ns - window.start_ns
        if window is not first:
            slices.kind[slices.kind == Kind.STEP] = Kind.ANNOTATION
    slices = first.trace.slices
    slices.dur_ns[slices.kind == Kind.STEP] = at_ns - first.start_ns
    yield from (run.window.trace for run in step)
    if any(run.window.start_ns in preparing for run in step):
        yield builder.finish(Meta("step-log"))


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
