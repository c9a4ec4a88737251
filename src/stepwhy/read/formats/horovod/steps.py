"""Training steps, derived from the reductions of one gradient."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from stepwhy.read.formats.horovod.exchanges import RangeRole
from stepwhy.read.shared.slice_columns import SliceColumns
from stepwhy.trace import Kind, Role

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.read.formats.horovod.exchanges import Ranges
    from stepwhy.trace import TraceBuilder

# Two reductions do not show a period.
_MIN_REDUCTIONS = 3
_NOTE = (
    "Each step lasts from one reduction of '{tensor}' to the next, including whatever else the "
    "training does in between."
)
_REDUCTIONS = frozenset({"ALLREDUCE", "ADASUM", "REDUCESCATTER"})


def steps_of(builder: TraceBuilder, ranges: Ranges) -> tuple[SliceColumns, tuple[str, ...]]:
    """Step markers; every gradient is reduced once per step.

    A step lasts from the start of a reduction to the start of the next one of the same tensor. The
    last reduction starts no step, because its end is not recorded.

    Args:
        builder: Receives their track.
        ranges: The ranges of the tensors.

    Returns:
        The steps, and notes on how they were found.
    """
    reduces = np.asarray([name in _REDUCTIONS for name in ranges.names], dtype=bool)
    exchanges = ranges.of(RangeRole.EXCHANGE)
    reductions = exchanges[reduces[ranges.name[exchanges]]]
    anchor = _anchor(ranges.row[reductions], len(ranges.tensors))
    steps = SliceColumns()
    if anchor is None:
        return steps, ()
    starts = ranges.start_ns[reductions[ranges.row[reductions] == anchor]]
    steps.add(
        {
            "track": builder.track(Role.HOST_THREAD, "steps"),
            "kind": int(Kind.STEP),
            "name": builder.intern("step"),
            "start_ns": starts[:-1],
            "dur_ns": np.diff(starts),
        }
    )
    return steps, (_NOTE.format(tensor=ranges.tensors[anchor]),)


def _anchor(row: NDArray[np.int32], rows: int) -> int | None:
    """First tensor with the most common number of reductions; None if no tensor repeats.

    Args:
        row: The tensor of every reduction, in the order of time.
        rows: Number of tensors.
    """
    counts = np.bincount(row, minlength=rows)
    repeated = Counter(c for c in counts.tolist() if c >= _MIN_REDUCTIONS)
    if not repeated:
        return None
    # Of equally common counts, the larger belongs to gradients and the smaller to metrics.
    usual = max(repeated, key=lambda count: (repeated[count], count))
    return int(row[np.argmax(counts[row] == usual)])


__all__ = ["steps_of"]
