"""The whole run for the charts of the page: every step, and what was sampled."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from stepwhy.analyse.run.run_steps import run_steps
from stepwhy.result.timeline import TimelineRun
from stepwhy.show.timeline.packing import packed, sample_columns
from stepwhy.show.timeline.series import sampled_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.analyse.facts import Facts
    from stepwhy.show.timeline.samples import Sampled

    Ints = NDArray[np.int64]

MOST_STEPS = 20_000
"""Most steps of a chart, which is about a thousand pixels wide."""
_MOST_SAMPLES = 20_000
_FEWEST_STEPS = 2


class WholeRun(msgspec.Struct, frozen=True):
    """All steps of a run, in order; all shapes (steps,).

    Args:
        number: Number of the step, from 1.
        start_ns: Its start.
        duration_ns: Its wall time.
        traced: 1 if a profiler ran during it, else 0.
        count: Number of steps in the run.
        sampled: What was sampled, row by row.
    """

    number: Ints
    start_ns: Ints
    duration_ns: Ints
    traced: Ints
    count: int
    sampled: tuple[Sampled, ...] = ()


class PackedRun(NamedTuple):
    """A run as the script reads it: what it has, and its columns; see `Timeline`."""

    about: TimelineRun
    columns: dict[str, bytes]


def packed_run(facts: Facts) -> PackedRun | None:
    """The run of a trace; None if it has too few steps for a chart.

    Args:
        facts: Facts of the trace.
    """
    run = whole_run(facts)
    if run.count < _FEWEST_STEPS:
        return None
    begin = int(run.start_ns[0])
    steps = {
        "number": np.diff(run.number, prepend=0),
        "start": np.diff(run.start_ns, prepend=begin),
        "duration": run.duration_ns,
        "traced": run.traced,
    }
    columns = steps | sample_columns(run.sampled, begin)
    rows = tuple(one.row() for one in run.sampled)
    return PackedRun(
        TimelineRun(len(run.number), run.count, rows),
        {f"run_{name}": packed(column) for name, column in columns.items()},
    )


def whole_run(facts: Facts) -> WholeRun:
    """The steps of the run, and what was sampled meanwhile.

    Args:
        facts: Facts of the trace.
    """
    steps = run_steps(facts)
    starts, durations, count = steps.starts_ns, steps.durations_ns, len(steps.starts_ns)
    traced = steps.profiled.astype(np.int64)
    run = WholeRun(np.arange(1, count + 1), starts, durations, traced, count)
    if not count:
        return run
    end_ns = int((starts + durations).max())
    rows = sampled_rows(facts.trace, int(starts[0]), end_ns, _MOST_SAMPLES)
    return replace(_thinned(run), sampled=(*rows.levels, *rows.counters))


def _thinned(run: WholeRun) -> WholeRun:
    """Keep the fastest and the slowest of neighbouring steps, and all that were traced."""
    if run.count <= MOST_STEPS:
        return run
    size = -(-2 * run.count // MOST_STEPS)
    kept = run.traced == 1
    for begin in range(0, run.count, size):
        group = run.duration_ns[begin : begin + size]
        kept[[begin + int(group.argmin()), begin + int(group.argmax())]] = True
    rows = np.flatnonzero(kept)
    columns = ("number", "start_ns", "duration_ns", "traced")
    return replace(run, **{name: getattr(run, name)[rows] for name in columns})
