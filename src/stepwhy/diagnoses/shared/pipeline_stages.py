"""What the recorded stages of a `tf.data` pipeline already do, so that it is not advised again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.patterns import regex
from stepwhy.trace import NULL

if TYPE_CHECKING:
    import re

    from numpy.typing import NDArray

    from stepwhy.trace import Trace

# Call a function of the program for each element.
_CALLING = regex(r"Map|Interleave")
_CACHE = regex(r"Cache")
_SHUFFLE = regex(r"Shuffle")


def works_ahead(trace: Trace) -> bool:
    """Whether the last stage has a thread of its own, which fills a buffer before the loop asks."""
    stages, rows = trace.stages, _rows(trace)
    last = rows[stages.consumer[rows] == NULL]
    return bool(len(last) and stages.buffered[last].all())


def calls_in_parallel(trace: Trace) -> bool | None:
    """Whether functions are called for several elements at a time; None if no call is recorded."""
    stages = trace.stages
    calling = [row for row in _rows(trace) if _CALLING.search(_name(trace, row))]
    # TensorFlow chooses the number where the program does not.
    several = [stages.parallelism[r] > 1 or stages.tuned[r] == 1 for r in calling]
    return all(several) if several else None


def caches(trace: Trace) -> bool:
    """Whether a stage keeps its elements for the next epoch."""
    return _has(trace, _CACHE)


def shuffles(trace: Trace) -> bool:
    """Whether a stage fills a buffer before it passes on its first element."""
    return _has(trace, _SHUFFLE)


def _has(trace: Trace, stage: re.Pattern[str]) -> bool:
    return any(stage.search(_name(trace, row)) for row in _rows(trace))


def _rows(trace: Trace) -> NDArray[np.int64]:
    """Rows of `stages` that are of `tf.data`."""
    return np.flatnonzero(np.isin(trace.stages.kind, trace.strings_where({"tf.data"})))


def _name(trace: Trace, row: np.int64) -> str:
    return trace.string(int(trace.stages.name[row]))


__all__ = ["caches", "calls_in_parallel", "shuffles", "works_ahead"]
