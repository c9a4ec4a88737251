"""Horovod timelines (`HOROVOD_TIMELINE`, `hvd.start_timeline`): the exchanges as rank 0 saw them.

Every tensor is a process row. On it stand the negotiation, from the rank that is ready first to
the last one, with a tick for every rank; then the exchange, with what it is made of. Tensors that
are fused into one exchange repeat its activities, each on its own row.

Here every row is a track, as written. Beside them every activity has a track on which the
repetitions are one slice: these are the exchanges to count. What computes meanwhile is not in the
file.

Source: horovod/common/timeline.cc (records), common.h (activities), message.cc (kinds of exchange,
element types), docs/timeline.rst (what the activities mean).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepwhy.errors import CorruptInputError
from stepwhy.importers.chrome_json import looks_like_chrome_json, read_records
from stepwhy.importers.chrome_span_lists import close_list, spans_of
from stepwhy.importers.horovod.exchanges import rows_of
from stepwhy.importers.horovod.ranks import notes_on_ranks, world_size
from stepwhy.importers.horovod.slices import add_batches, add_rows
from stepwhy.importers.horovod.steps import add_steps
from stepwhy.patterns import regex
from stepwhy.trace import Meta, TraceBuilder

if TYPE_CHECKING:
    from stepwhy.importers.chrome_json import Records
    from stepwhy.importers.source import Source
    from stepwhy.trace import Health, Trace

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
        CorruptInputError: It holds no exchange that came to its end.
    """
    builder = TraceBuilder()
    records = read_records(close_list(source, builder.health), dict[str, Any], builder.health)
    spans = spans_of(records, builder.health)
    _count_others(records, builder.health)
    rows = rows_of(records, spans)
    if not any(row.exchanges for row in rows):
        raise CorruptInputError(
            f"{source.origin} is a Horovod timeline without a single exchange",
            "Write it on rank 0, while the training runs",
        )
    add_rows(builder, rows)
    add_batches(builder, rows)
    told = add_steps(builder, rows)
    return builder.finish(
        Meta(
            format=FORMAT,
            world_size=world_size(rows),
            limit=_LIMIT,
            notes=(*told, *notes_on_ranks(rows)),
        )
    )


def _count_others(records: Records[dict[str, Any]], health: Health) -> None:
    """Records that are no ranges; what names a row is in the trace as the name of its track."""
    phases = [e.ph for e in records.events]
    names = sum(phase == "M" for phase in phases)
    health.events_kept += names
    cycles = sum(e.ph in {"i", "I"} and e.name == "CYCLE_START" for e in records.events)
    health.count(
        "cycle-marker",
        "info",
        "Horovod looks for tensors in cycles of a few milliseconds; they are no steps.",
        count=cycles,
        dropped=True,
    )
    health.count(
        "other-record",
        "info",
        "Records of kinds that a Horovod timeline does not have.",
        count=sum(phase not in {"M", "X", "B", "E"} for phase in phases) - cycles,
        dropped=True,
    )
