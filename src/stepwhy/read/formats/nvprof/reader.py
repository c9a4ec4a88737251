"""nvprof databases (`nvprof -o FILE`), the profiler of the CUDA toolkits 5 to 12.

Each kind of CUPTI's activity records has a table, even if nothing was recorded. Names are numbers
into `StringTable`, which also contains the command that was profiled. A file is of one process.

Source: `cupti_activity.h` of the CUDA toolkit, whose structures the tables repeat.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.read.formats.nvprof.tables import add_device_activity, add_host_activity
from stepwhy.read.shared.cuda_activity import DEVICE_KINDS, CudaActivity
from stepwhy.read.shared.database import is_database, open_database
from stepwhy.trace import TraceBuilder

if TYPE_CHECKING:
    from stepwhy.read.inputs.source import Source
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


def recognise(source: Source) -> bool:
    """Whether the file is a database; `read` decides by its tables whether nvprof wrote it."""
    return is_database(source)


def read(source: Source) -> Trace | None:
    """Read a database; None for databases of other programs.

    Raises:
        CorruptInputError: The database is damaged, or still being written.
    """
    builder = TraceBuilder()
    with open_database(source) as database:
        tables = database.tables
        if _STRINGS not in tables or not any(t.startswith(_RECORDS) for t in tables):
            return None
        activity = CudaActivity(database, builder)
        strings = database.texts(_STRINGS, "_id_", "value")
        add_host_activity(activity, strings)
        add_device_activity(activity, strings)
        database.note_damage(builder.health)
        kinds = activity.kinds
        limit = "" if kinds & DEVICE_KINDS else _NO_DEVICE if kinds else _NOTHING
        meta = activity.meta(FORMAT, limit, device_expected=True)
        activity.finish()
    return builder.finish(meta)
