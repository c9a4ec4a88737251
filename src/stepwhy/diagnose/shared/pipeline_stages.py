"""What the recorded stages of a `tf.data` pipeline already do, so that it is not advised again."""

from __future__ import annotations

import re

import numpy as np

from stepwhy.base.patterns import regex
from stepwhy.trace import NULL, Trace

# Call a function of the program for each element.
_CALLING = regex(r"Map|Interleave")
_CACHE = regex(r"Cache")
_SHUFFLE = regex(r"Shuffle")


LITTLE = 0.1  # of the work of all functions; more threads for it gain less than the step varies


def works_ahead(trace: Trace) -> bool:
    """Whether the last stage has a thread of its own, which fills a buffer before the loop asks."""
    stages, rows = trace.stages, stage_rows(trace)
    last = [row for row in rows if stages.consumer[row] == NULL]
    return bool(last) and all(stages.buffered[row] for row in last)


def calls_in_parallel(trace: Trace) -> bool | None:
    """Whether functions are called for several elements at a time; None if no call is recorded.

    A function that does little of the work may be called for one at a time.
    """
    stages = trace.stages
    # Stages that have ended are known by name only.
    calling = [r for r in stage_rows(trace) if stages.elements[r] != NULL and calls(trace, r)]
    work_ns = [int(stages.elements[r]) * max(int(stages.processing_ns[r]), 0) for r in calling]
    busy = [r for r, ns in zip(calling, work_ns, strict=True) if ns >= LITTLE * sum(work_ns)]
    # TensorFlow chooses the number where the program does not.
    several = [bool(stages.parallelism[r] > 1 or stages.tuned[r] == 1) for r in busy]
    return all(several) if several else None


def calls(trace: Trace, row: int) -> bool:
    """Whether a stage calls a function of the program."""
    return _CALLING.search(stage_name(trace, row)) is not None


def caches(trace: Trace) -> bool:
    """Whether a stage keeps its elements for the next epoch."""
    return _has(trace, _CACHE)


def shuffles(trace: Trace) -> bool:
    """Whether a stage fills a buffer before it passes on its first element."""
    return _has(trace, _SHUFFLE)


def _has(trace: Trace, stage: re.Pattern[str]) -> bool:
    return any(stage.search(stage_name(trace, row)) for row in stage_rows(trace))


def stage_rows(trace: Trace) -> list[int]:
    """Rows of `stages` that are of `tf.data`, consumers first."""
    is_data = np.isin(trace.stages.kind, trace.strings_where({"tf.data"}))
    return [int(row) for row in np.flatnonzero(is_data)]


def stage_name(trace: Trace, row: int) -> str:
    """Name of a stage."""
    return trace.string(int(trace.stages.name[row]))


__all__ = [
    "caches",
    "calls",
    "calls_in_parallel",
    "shuffles",
    "stage_name",
    "stage_rows",
    "works_ahead",
]
