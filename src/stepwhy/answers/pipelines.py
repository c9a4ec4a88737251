"""How full the queues and buffers between input and training were.

A queue that is near empty starves: whoever takes from it waits. One that is near full shows that
the input keeps up, and that whoever takes from it is the slower side.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from stepwhy.columns.groups import group_rows, rows_by_group
from stepwhy.findings import Pipeline, PipelineStage
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.trace import Trace

# What a sampled queue shows that an instant earlier was empty or full: a few of many elements.
_NEAR = 0.05
_MOST_POINTS = 200
# A pause in which nothing was sampled says no more than this many usual intervals would.
_LONGEST_SAMPLE = 20


def find_pipelines(trace: Trace, steady_ns: tuple[int, int] | None) -> tuple[Pipeline, ...]:
    """Every queue and buffer, those of which levels were sampled first, as they appear.

    Args:
        trace: The trace, with `levels` and `stages`.
        steady_ns: From when to when the shares are to hold; None for the whole run.
    """
    stages = _segments(trace)
    sampled = [
        replace(_pipeline(trace, rows, steady_ns), stages=tuple(stages.pop(key, ())))
        for key, rows in _queues(trace).items()
    ]
    unsampled = [
        Pipeline(trace.string(name), trace.string(kind), None, 0, 0, None, None, None, (), (*own,))
        for (kind, name), own in stages.items()
    ]
    return (*sampled, *unsampled)


def _queues(trace: Trace) -> dict[tuple[int, int], NDArray[np.int32]]:
    """Rows of `levels` by kind and queue, in the order of the first one."""
    levels = trace.levels
    first, group = group_rows(levels.kind, levels.queue)
    keys = zip(levels.kind[first].tolist(), levels.queue[first].tolist(), strict=True)
    return dict(zip(keys, rows_by_group(group, len(first))[1], strict=False))


def _segments(trace: Trace) -> dict[tuple[int, int], list[PipelineStage]]:
    """By kind and name of a buffer the stages that fill it, the last one first.

    A stage without a buffer belongs to the one that takes from it.
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
    held = None if capacity == NULL else capacity
    steady = _steady(levels.time_ns[rows], steady_ns)
    weights = _weights(levels.time_ns[rows][steady])
    usable = np.maximum(levels.value[rows][steady] - reserve, 0)
    room = max(capacity - reserve, 1)
    fill = np.minimum(usable / room, 1.0)
    return Pipeline(
        name=trace.string(int(levels.queue[rows[0]])),
        kind=trace.string(int(levels.kind[rows[0]])),
        capacity=held,
        reserve=reserve,
        samples=len(rows),
        mean_fill=None if held is None else round(float(fill @ weights), 4),
        empty_share=_share(usable == 0 if held is None else fill <= _NEAR, weights),
        full_share=None if held is None else _share(fill >= 1 - _NEAR, weights),
        series=_series(trace, rows),
    )


def _steady(times_ns: NDArray[np.int32], steady_ns: tuple[int, int] | None) -> NDArray[np.bool_]:
    """Which samples count: those of steady steps, all where there is none of them."""
    if steady_ns is None:
        return np.ones(len(times_ns), dtype=bool)
    inside: NDArray[np.bool_] = (times_ns >= steady_ns[0]) & (times_ns <= steady_ns[1])
    return inside if inside.any() else ~inside


def _weights(times_ns: NDArray[np.int64]) -> NDArray[np.float64]:
    """The share of the time that each sample stands for: that until the next one; sums to 1."""
    gaps = np.diff(times_ns).astype(np.float64)
    usual = float(np.median(gaps)) if len(gaps) else 1.0
    gaps = np.clip(np.append(gaps, usual), 1.0, max(_LONGEST_SAMPLE * usual, 1.0))
    weights: NDArray[np.float64] = gaps / gaps.sum()
    return weights


def _share(there: NDArray[np.bool_], weights: NDArray[np.float64]) -> float:
    return round(float(weights[there].sum()), 4)


def _series(trace: Trace, rows: NDArray[np.int32]) -> tuple[tuple[int, float], ...]:
    """(time since the first step, elements), the mean of each group of neighbouring samples."""
    times, values = trace.levels.time_ns[rows], trace.levels.value[rows]
    origin = int(trace.marks.start_ns[0]) if len(trace.marks) else int(times[0])
    bounds = _bounds(times)
    return tuple(
        (int(times[a]) - origin, round(float(values[a:b].mean()), 2))
        for a, b in pairwise(bounds)
        if b > a
    )


def _bounds(times_ns: NDArray[np.int64]) -> list[int]:
    """Where each group begins, and the end: every sample alone, or equal stretches of time."""
    if len(times_ns) <= _MOST_POINTS:
        return list(range(len(times_ns) + 1))
    edges = np.linspace(times_ns[0], times_ns[-1], _MOST_POINTS + 1)[1:-1]
    return [0, *np.searchsorted(times_ns, edges).tolist(), len(times_ns)]
