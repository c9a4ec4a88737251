"""Horovod timelines (`HOROVOD_TIMELINE`, `hvd.start_timeline`): exchanges as seen by rank 0.

Every tensor is a process row. It shows the negotiation, from the first ready rank to the last, with
a tick for each rank, and then the exchange with its activities. Tensors that are fused into one
exchange repeat its activities, each on its own row.

In the trace, every row is a track, as recorded. In addition, each activity has a track on which
repetitions are merged into one slice; only these slices count as exchanges. The file does not show
computation.

Source: horovod/common/timeline.cc (records), common.h (activities), message.cc (kinds of exchange,
element types), docs/timeline.rst (what the activities mean).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from stepwhy.base.errors import CorruptInputError
from stepwhy.base.patterns import regex
from stepwhy.read.formats.horovod.exchanges import RangeRole, ranges_of
from stepwhy.read.formats.horovod.ranks import notes_on_ranks, world_size
from stepwhy.read.formats.horovod.records import collect
from stepwhy.read.formats.horovod.slices import Rows, batches_of
from stepwhy.read.shared.chrome_json import looks_like_chrome_json
from stepwhy.read.shared.slice_columns import SliceColumns
from stepwhy.trace import Kind, Meta, Role, TraceBuilder

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.read.formats.horovod.exchanges import Ranges
    from stepwhy.read.inputs.source import Source
    from stepwhy.trace import Trace

FORMAT = "horovod-timeline"

_MARKS = regex(
    rb'"NEGOTIATE_[A-Z]+"|"CYCLE_START"|"start_time_since_epoch_in_micros"'
    rb'|"(?:NCCL|MPI|GLOO|CCL|DDL)_(?:ADASUM_)?(?:ALLREDUCE|ALLGATHER|BCAST|ALLTOALL|REDUCESCATTER)"'
)
_LIMIT = (
    "a Horovod timeline shows the exchanges between the ranks and not what computes meanwhile, so "
    "it does not show which of them hold the step up. Trace a rank with its framework's profiler, "
    "too"
)

# Two reductions do not show a period.
_MIN_REDUCTIONS = 3
_STEP_NOTE = (
    "Each step lasts from one reduction of '{tensor}' to the next, including whatever else the "
    "training does in between."
)
_REDUCTIONS = frozenset({"ALLREDUCE", "ADASUM", "REDUCESCATTER"})


def recognise(source: Source) -> bool:
    """Whether the file is a Chrome trace with Horovod's names of exchanges."""
    return looks_like_chrome_json(source.head) and _MARKS.search(source.head) is not None


def read(source: Source) -> Trace:
    """Read a Horovod timeline.

    Args:
        source: The file.

    Raises:
        CorruptInputError: It contains no complete exchange.
    """
    builder = TraceBuilder()
    found = collect(source, builder.health)
    ranges = ranges_of(found, builder.health)
    found.count_others(builder.health)
    if not len(ranges.of(RangeRole.EXCHANGE)):
        raise CorruptInputError(
            f"{source.origin} is a Horovod timeline without a single exchange",
            "Write it on rank 0, while the training runs",
        )
    rows = Rows(builder, ranges)
    batches = batches_of(builder, ranges)
    steps, step_notes = _steps_of(builder, ranges)
    notes = (*step_notes, *notes_on_ranks(ranges))
    meta = Meta(format=FORMAT, world_size=world_size(ranges), limit=_LIMIT, notes=notes)
    rows.add_slices()
    batches.add_to(builder)
    steps.add_to(builder)
    return builder.finish(meta)


def _steps_of(builder: TraceBuilder, ranges: Ranges) -> tuple[SliceColumns, tuple[str, ...]]:
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
    return steps, (_STEP_NOTE.format(tensor=ranges.tensors[anchor]),)


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
