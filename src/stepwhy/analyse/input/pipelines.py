"""Fill levels of the queues and buffers between input and training.

If a queue is nearly empty, its consumer waits for input. If it is nearly full, the input keeps up
and the consumer is the slower side.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from stepwhy.base.columns.groups import group_rows, rows_by_group
from stepwhy.result import Pipeline, PipelineStage
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from stepwhy.trace import Trace

# Share of the capacity; samples this close to empty or full count as such, because a queue that was
# empty or full may change just before the sample.
_NEAR = 0.05
_MOST_POINTS = 200
# A queue that smooths out bursts is empty for moments; one that is empty for this share of the time
# cannot keep up. Fewer samples give no reliable share.
_STARVED = 0.9
_FEWEST_SAMPLES = 10
# If sampling paused, a sample counts for at most this many usual intervals.
_LONGEST_SAMPLE = 20


def find_pipelines(trace: Trace, steady_ns: tuple[int, int] | None) -> tuple[Pipeline, ...]:
    """Every queue and buffer; those with sampled levels come first, in order of appearance.

    Args:
        trace: The trace, with `levels` and `stages`.
        steady_ns: Start and end of the time that the shares describe; None for the whole run.
    """
    stages = _segments(trace)
    # Rows of `levels` by kind and queue, in the order of the first one.
    levels = trace.levels
    first, group = group_rows(levels.kind, levels.queue)
    keys = zip(levels.kind[first].tolist(), levels.queue[first].tolist(), strict=True)
    queues = dict(zip(keys, rows_by_group(group, len(first))[1], strict=False))
    sampled = [
        replace(_pipeline(trace, rows, steady_ns), stages=tuple(stages.pop(key, ())))
        for key, rows in queues.items()
    ]
    unsampled = [
        Pipeline(trace.string(name), trace.string(kind), None, 0, 0, None, None, None, (), (*own,))
        for (kind, name), own in stages.items()
    ]
    return (*sampled, *unsampled)


def starved_queue(pipelines: Iterable[Pipeline]) -> Pipeline | None:
    """The pipeline that was empty nearly all the time; None if there is none.

    Args:
        pipelines: As `find_pipelines` returns them.
    """
    sampled = [p for p in pipelines if p.samples >= _FEWEST_SAMPLES]
    emptiest = max(sampled, key=lambda pipeline: pipeline.empty_share or 0.0, default=None)
    return emptiest if emptiest and (emptiest.empty_share or 0.0) >= _STARVED else None


def _segments(trace: Trace) -> dict[tuple[int, int], list[PipelineStage]]:
    """The stages that fill each buffer, the last one first; by kind and name of the buffer.

    A stage without a buffer belongs to the buffer of its consumer.
    """
    stages = trace.stages
    buffer_of: dict[tuple[int, int], tuple[int, int]] = {}
    found: dict[tuple[int, int], list[PipelineStage]] = {}
    for row in range(len(stages)):
        kind, name, consumer = (int(c[row]) for c in (stages.kind, stages.name, stages.consumer))
        own = (kind, name)
        buffer = own if stages.buffered[row] else buffer_of.get((kind, consumer), own)
        buffer_of[own] = buffer
        found.setdefault(buffer, []).append(_stage(trace, row))
    return found


def _stage(trace: Trace, row: int) -> PipelineStage:
    stages = trace.stages
    counts = (stages.parallelism, stages.buffer_size, stages.elements, stages.processing_ns)
    known = (None if column[row] == NULL else int(column[row]) for column in counts)
    return PipelineStage(trace.string(int(stages.name[row])), *known)


def _pipeline(trace: Trace, rows: NDArray[np.int32], steady_ns: tuple[int, int] | None) -> Pipeline:
    levels = trace.levels
    capacity, reserve = int(levels.capacity[rows].max()), int(levels.reserve[rows].max())
    is_bounded = capacity != NULL
    steady = _steady(levels.time_ns[rows], steady_ns)
    # Share of the time that each sample counts for, until the next one.
    gaps = np.diff(levels.time_ns[rows][steady]).astype(np.float64)
    usual = float(np.median(gaps)) if len(gaps) else 1.0
    gaps = np.clip(np.append(gaps, usual), 1.0, max(_LONGEST_SAMPLE * usual, 1.0))
    weights: NDArray[np.float64] = gaps / gaps.sum()
    usable = np.maximum(levels.value[rows][steady] - reserve, 0)
    room = max(capacity - reserve, 1)
    fill = np.minimum(usable / room, 1.0)
    return Pipeline(
        name=trace.string(int(levels.queue[rows[0]])),
        kind=trace.string(int(levels.kind[rows[0]])),
        capacity=capacity if is_bounded else None,
        reserve=reserve,
        samples=len(rows),
        mean_fill=round(float(fill @ weights), 4) if is_bounded else None,
        empty_share=_share(fill <= _NEAR if is_bounded else usable == 0, weights),
        full_share=_share(fill >= 1 - _NEAR, weights) if is_bounded else None,
        series=_series(trace, rows),
    )


def _steady(times_ns: NDArray[np.int32], steady_ns: tuple[int, int] | None) -> NDArray[np.bool_]:
    """Mask of the samples in steady steps; of all samples if there is none in them."""
    if steady_ns is None:
        return np.ones(len(times_ns), dtype=bool)
    inside: NDArray[np.bool_] = (times_ns >= steady_ns[0]) & (times_ns <= steady_ns[1])
    return inside if inside.any() else ~inside


def _share(chosen: NDArray[np.bool_], weights: NDArray[np.float64]) -> float:
    return round(float(weights[chosen].sum()), 4)


def _series(trace: Trace, rows: NDArray[np.int32]) -> tuple[tuple[int, float], ...]:
    """Time since the first step and mean level of each group of neighbouring samples."""
    times, values = trace.levels.time_ns[rows], trace.levels.value[rows]
    origin = int(trace.marks.start_ns[0]) if len(trace.marks) else int(times[0])
    bounds = _bounds(times)
    return tuple(
        (int(times[a]) - origin, round(float(values[a:b].mean()), 2))
        for a, b in pairwise(bounds)
        if b > a
    )


def _bounds(times_ns: NDArray[np.int64]) -> list[int]:
    """Bounds of groups of samples: single samples, or equal spans of time if there are many."""
    if len(times_ns) <= _MOST_POINTS:
        return list(range(len(times_ns) + 1))
    edges = np.linspace(times_ns[0], times_ns[-1], _MOST_POINTS + 1)[1:-1]
    return [0, *np.searchsorted(times_ns, edges).tolist(), len(times_ns)]
