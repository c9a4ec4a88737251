"""From traced `Session.run`s to traced steps of a TensorFlow 1 loop.

Each traced run is a window of its own. A program that calls `run` several times per step is only
explained by all of them, so the runs of a step are laid end to end and become one step; the Python
between them is known from the step log.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepwhy.trace import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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


def join_runs(windows: Sequence[RunWindow], steps: Sequence[tuple[list[Line], int]]) -> list[Trace]:
    """The windows of the steps of which every run was traced, each step's laid end to end.

    The wall time of a run is that of its usual step, so a traced step with more or fewer runs than
    most (one that saves a checkpoint) is left out, if it is not all there is. Where no step was
    traced in full, the windows that begin one, as they are; else all.

    Args:
        windows: The traced runs.
        steps: The runs of every step of the log, and its end.
    """
    by_start = {w.start_ns: w for w in windows}
    traced = [[by_start.get(run.start_ns) for run in runs] for runs, _ in steps]
    whole = [[w for w in step if w is not None] for step in traced if None not in step]
    if whole:
        usual = Counter(len(runs) for runs, _ in steps).most_common(1)[0][0]
        chosen = [step for step in whole if len(step) == usual] or whole
        return [trace for step in chosen for trace in _end_to_end(step)]
    first = [step[0].trace for step in traced if step[0] is not None]
    return first or [w.trace for w in windows]


def _end_to_end(windows: Sequence[RunWindow]) -> Iterator[Trace]:
    """The traces of one step, moved so that each run begins where the one before it ended."""
    at_ns = windows[0].start_ns
    for window in windows:
        slices = window.trace.slices
        slices.start_ns -= window.start_ns - at_ns
        window.trace.counters.time_ns -= window.start_ns - at_ns
        at_ns += window.end_ns - window.start_ns
        if window is not windows[0]:
            slices.kind[slices.kind == Kind.STEP] = Kind.ANNOTATION
    first = windows[0].trace.slices
    first.dur_ns[first.kind == Kind.STEP] = at_ns - windows[0].start_ns
    yield from (w.trace for w in windows)


__all__ = ["RunWindow", "join_runs"]
