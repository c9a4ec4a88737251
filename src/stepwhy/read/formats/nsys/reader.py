"""Nsight Systems reports as `nsys export --type sqlite` writes them, schemas 1 (2019) to 3 (2026).

A table exists only if something was recorded for it, and columns come and go between releases: a
missing one is not an error. Names are numbers into `StringIds`. That table also contains the
environment, the command and the output of the profiled processes: only the texts that kernels,
calls and ranges refer to are used.

Source: "SQLite Export Schema Reference" of the Nsight Systems user guide, and the comments in the
databases' own `CREATE TABLE` statements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.read.formats.nsys.about import count_messages, meta_of
from stepwhy.read.formats.nsys.device import add_device_activity
from stepwhy.read.formats.nsys.export import Export
from stepwhy.read.formats.nsys.host import add_host_activity
from stepwhy.read.shared.database import is_database, open_database
from stepwhy.trace import TraceBuilder

if TYPE_CHECKING:
    from stepwhy.read.inputs.source import Source
    from stepwhy.trace import Trace

FORMAT = "nsys"

_STRINGS = "StringIds"
# A database with the strings and any of these tables is an export of Nsight Systems.
_OWN = frozenset(
    {
        "META_DATA_EXPORT",
        "EXPORT_META_DATA",
        "META_DATA_CAPTURE",
        "ANALYSIS_DETAILS",
        "TARGET_INFO_SESSION_START_TIME",
        "ENUM_NSYS_EVENT_TYPE",
        "NVTX_EVENTS",
        "CUPTI_ACTIVITY_KIND_RUNTIME",
        "CUPTI_ACTIVITY_KIND_KERNEL",
    }
)


def recognise(source: Source) -> bool:
    """Whether the file is a database; `read` decides by its tables whether it is an export."""
    return is_database(source)


def read(source: Source) -> Trace | None:
    """Read an export; None for other databases.

    Raises:
        CorruptInputError: The database is damaged, or still being written.
    """
    builder = TraceBuilder()
    with open_database(source) as database:
        if _STRINGS not in database.tables or not _OWN & database.tables:
            return None
        export = Export(database, builder)
        add_host_activity(export)
        add_device_activity(export)
        count_messages(export)
        database.note_damage(builder.health)
        meta = meta_of(FORMAT, export)
        export.activity.finish()
    return builder.finish(meta)
