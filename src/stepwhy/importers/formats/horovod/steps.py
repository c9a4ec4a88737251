"""The steps of a training, from the reductions of one of its gradients."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from stepwhy.importers.formats.horovod.exchanges import Role as Of
from stepwhy.importers.shared.slice_columns import SliceColumns
from stepwhy.trace import Kind, Role

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.importers.formats.horovod.exchanges import Pieces
    from stepwhy.trace import TraceBuilder

# Two of anything do not make a rhythm.
_FEWEST_REDUCTIONS = 3
_TOLD = (
    "Steps are told by the reductions of '{tensor}', from one to the next; what else the training "
    "does between two of them is in the step."
)
_REDUCTIONS = frozenset({"ALLREDUCE", "ADASUM", "REDUCESCATTER"})


def steps_of(builder: TraceBuilder, pieces: Pieces) -> tuple[SliceColumns, tuple[str, ...]]:
    """The steps as markers; every gradient is reduced once in each.

    A step reaches from the start of a reduction to the start of the next one of the same tensor,
    so that the last, of which the next start is not recorded, is none.

    Args:
        builder: Takes their track.
        pieces: The ranges of the tensors.

    Returns:
        The steps, and how they were told, for the reader.
    """
    reduces = np.asarray([name in _REDUCTIONS for name in pieces.names], dtype=bool)
    exchanges = pieces.of(Of.EXCHANGE)
    reductions = exchanges[reduces[pieces.name[exchanges]]]
    anchor = _anchor(pieces.row[reductions], len(pieces.tensors))
    steps = SliceColumns()
    if anchor is None:
        return steps, ()
    starts = pieces.start_ns[reductions[pieces.row[reductions] == anchor]]
    steps.add(
        {
            "track": builder.track(Role.HOST_THREAD, "steps"),
            "kind": int(Kind.STEP),
            "name": builder.intern("step"),
            "start_ns": starts[:-1],
            "dur_ns": np.diff(starts),
        }
    )
    return steps, (_TOLD.format(tensor=pieces.tensors[anchor]),)


def _anchor(row: NDArray[np.int32], rows: int) -> int | None:
    """Of the tensors that are reduced as often as most, the first; None where none repeats.

    Args:
        row: The tensor of every reduction, in the order of time.
        rows: How many tensors there are.
    """
    counts = np.bincount(row, minlength=rows)
    repeated = Counter(c for c in counts.tolist() if c >= _FEWEST_REDUCTIONS)
    if not repeated:
        return None
    # Of counts that are equally frequent the larger is the gradients', the smaller the metrics'.
    usual = max(repeated, key=lambda count: (repeated[count], count))
    return int(row[np.argmax(counts[row] == usual)])


__all__ = ["steps_of"]
