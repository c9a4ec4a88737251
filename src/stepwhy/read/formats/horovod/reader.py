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

from typing import TYPE_CHECKING

from stepwhy.base.errors import CorruptInputError
from stepwhy.base.patterns import regex
from stepwhy.read.formats.horovod.exchanges import RangeRole, ranges_of
from stepwhy.read.formats.horovod.ranks import notes_on_ranks, world_size
from stepwhy.read.formats.horovod.records import collect
from stepwhy.read.formats.horovod.slices import Rows, batches_of
from stepwhy.read.formats.horovod.steps import steps_of
from stepwhy.read.shared.chrome_json import looks_like_chrome_json
from stepwhy.trace import Meta, TraceBuilder

if TYPE_CHECKING:
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
    steps, step_notes = steps_of(builder, ranges)
    notes = (*step_notes, *notes_on_ranks(ranges))
    meta = Meta(format=FORMAT, world_size=world_size(ranges), limit=_LIMIT, notes=notes)
    rows.add_slices()
    batches.add_to(builder)
    steps.add_to(builder)
    return builder.finish(meta)
