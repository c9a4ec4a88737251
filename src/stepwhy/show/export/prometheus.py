"""A finished run as text for Prometheus, with the metrics of `stepwhy run --metrics-file`.

Of a finished run, the breakdown of the mean step, the cost of findings and the peaks of the memory
are known, too; how much memory its processes use is not, for they have ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.base.errors import OutputError
from stepwhy.base.whole_files import output_file
from stepwhy.show.metrics.model import DurationCounter, Process, Queue, Run
from stepwhy.show.metrics.prometheus import text_of

if TYPE_CHECKING:
    from pathlib import Path

    from stepwhy.show.export.explained import Explained
    from stepwhy.show.export.series import Level, RunSeries


def write_prometheus(run: Explained, path: Path) -> None:
    """Write the metrics of a run to a file.

    Args:
        run: The run.
        path: The file; a folder of node_exporter needs the ending '.prom'.

    Raises:
        OutputError: It cannot be written.
        MissingPackageError: prometheus-client is not installed.
    """
    text = text_of(_numbers(run))
    try:
        with output_file(path) as file:
            file.write(text)
    except OSError as error:
        raise OutputError(
            f"{path.name} cannot be written ({error.strerror or 'unknown error'})",
            "Choose a file in a folder where you may write",
        ) from None


def _numbers(run: Explained) -> Run:
    result = run.result
    categories = result.breakdown.categories
    found = [f for f in result.findings if f.verdict == "found"]
    return Run(
        run.name,
        tuple(_process(series) for series in run.series),
        breakdown=categories if any(categories.values()) else {},
        costs_ns={f.id: f.cost_ns_per_step for f in found if f.cost_ns_per_step is not None},
        peak_bytes={use.name: use.peak_bytes for use in result.memory},
    )


def _process(series: RunSeries) -> Process:
    count = len(series.steps) + len(series.profiled)
    times = series.steps.values
    return Process(
        series.framework,
        series.rank,
        steps=count or None,
        durations=DurationCounter(times.tolist()).durations() if len(times) else None,
        input_wait_ns=int(series.waits.values.sum()) if len(series.waits) else None,
        observed_ns=series.observed_ns if len(series.waits) else None,
        last_step_ns=series.end_ns if count and series.is_dated else None,
        queues=tuple(_queue(level) for level in series.levels) if series.is_dated else (),
    )


def _queue(level: Level) -> Queue:
    last = level.curve
    return Queue(
        level.name, level.kind, int(last.values[-1]), level.capacity, int(last.times_ns[-1])
    )
