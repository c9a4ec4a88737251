"""nvprof databases (`nvprof -o FILE`), the profiler of the CUDA toolkits 5 to 12.

Each kind of CUPTI's activity records is a table, there even when nothing was recorded. Names are
numbers into `StringTable`, which also holds the command that was profiled. One file is of one
process.

Source: `cupti_activity.h` of the CUDA toolkit, whose structures the tables repeat.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.importers.formats.nvprof.tables import add_device_activity, add_host_activity
from stepwhy.importers.shared.cuda_rows import CudaRows
from stepwhy.importers.shared.database import is_database, open_database
from stepwhy.trace import Kind, Meta, TraceBuilder

if TYPE_CHECKING:
    from stepwhy.inputs.source import Source
    from stepwhy.trace import Trace

FORMAT = "nvprof"

_STRINGS = "StringTable"
_RECORDS = "CUPTI_ACTIVITY_KIND_"
_NOTHING = (
    "the database holds no record: profiling was never started, or ended before the work began. "
    "With '--profile-from-start off', call cudaProfilerStart"
)
_NO_DEVICE = (
    "the database holds nothing that a GPU did. Record without '--profile-api-trace' and without "
    "metrics or events"
)
_DEVICE = {Kind.KERNEL, Kind.COLLECTIVE, Kind.MEMCPY, Kind.MEMSET}


def recognise(source: Source) -> bool:
    """Whether the file is a database; whose it is, its tables tell."""
    return is_database(source)


def read(source: Source) -> Trace | None:
    """Read a database; None for those of others.

    Raises:
        CorruptInputError: The database is damaged, or still being written.
    """
    builder = TraceBuilder()
    with open_database(source) as database:
        tables = database.tables
        if _STRINGS not in tables or not any(t.startswith(_RECORDS) for t in tables):
            return None
        rows = CudaRows(database, builder)
        strings = database.texts(_STRINGS, "_id_", "value")
        add_host_activity(rows, strings)
        add_device_activity(rows, strings)
        database.note_damage(builder.health)
        meta = _meta(rows)
        rows.hand_over()
    return builder.finish(meta)


def _meta(rows: CudaRows) -> Meta:
    kinds = rows.kinds
    limit = "" if kinds & _DEVICE else _NO_DEVICE if kinds else _NOTHING
    signals = rows.signals()
    return Meta(
        format=FORMAT,
        framework=rows.framework(),
        signals=signals | {"ranges"} if limit else signals,
        device_expected=True,
        notes=tuple(rows.notes) if kinds else (f"Nothing is in it: {limit}.",),
        limit=limit,
    )
