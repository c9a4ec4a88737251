"""Chrome trace JSON, which chrome://tracing and Perfetto open and `stepwhy explain` reads back.

Times are microseconds with three decimals, relative to `baseTimeNanoseconds`: viewers store them as
doubles, in which times since the epoch would lose their nanoseconds. Data that does not fit into
events (other tables, metadata of the run) is under the key `stepwhy`, which viewers ignore.

Source: the "Trace Event Format" document of the Chromium project.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from stepwhy.base.text import escape_json_bytes
from stepwhy.show.export.events import Records
from stepwhy.show.export.files import compressed_file
from stepwhy.trace.header import header_of
from stepwhy.trace.schema import TABLES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from stepwhy.show.export.events import ExtraRow
    from stepwhy.show.export.files import Writable
    from stepwhy.trace import Trace

SCHEMA = "stepwhy.chrome-trace/1"
# Version history: 1, the first.


def write_chrome_trace(trace: Trace, path: Path, extra: Sequence[ExtraRow] = ()) -> None:
    """Write a trace to a file, completely or not at all; compressed if its name ends in '.gz'.

    Args:
        trace: The trace.
        path: The file.
        extra: Rows to show beside the trace, such as predicted ones; they are not read back.

    Raises:
        OutputError: If the file cannot be written.
    """
    with compressed_file(path) as file:
        _write(trace, file, extra)


def _write(trace: Trace, file: Writable, extra: Sequence[ExtraRow]) -> None:
    """Write one event per line as it is generated, so that memory does not grow with the file."""
    records = Records(trace, extra)
    header = {
        "schema": SCHEMA,
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": records.base_ns,
        "stepwhy": _about(trace, records),
    }
    file.write(escape_json_bytes(msgspec.json.encode(header))[:-1] + b',"traceEvents":[\n')
    events = records.events()
    file.write(next(events))
    file.writelines(b",\n" + event for event in events)
    file.write(b"\n]}\n")


def _about(trace: Trace, records: Records) -> dict[str, Any]:
    """Everything except slices, which are events."""
    rest = {
        table: {name: column.tolist() for name, column in vars(trace.table(table)).items()}
        for table in TABLES
        if table != "slices"
    }
    return header_of(trace) | {
        "strings": list(trace.strings),
        "columns": rest,
        "thread_tracks": [thread.track for thread in records.layout.threads],
    }
