"""Host activity: calls, NVTX ranges, and the overhead of the profiler."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from stepwhy.base.patterns import regex
from stepwhy.read.shared.cuda import without_version
from stepwhy.read.shared.cuda_activity import ABSENT, TIMES, each
from stepwhy.read.shared.cuda_ranges import NvtxRanges, add_ranges
from stepwhy.trace import Kind, Phase

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.read.formats.nsys.export import Export
    from stepwhy.read.shared.database import Rows

_CALL = (*TIMES, "globalTid", "correlationId", "nameId")
# Columns of NVTX records.
_EVENT = (*TIMES, "eventType", "globalTid", "textId", "domainId")
_LOADING = regex(r"compiler|module.?loading|function.?loading", re.IGNORECASE)
# Prefix of the autograd engine's threads; other thread names are private, and not read.
_AUTOGRAD = "pt_autograd"
# Listed as overhead, but only means that the host is far ahead of the device.
_QUEUE_FULL = regex(r"command.?buffer", re.IGNORECASE)

# Calls of libraries: the table, the column of their names, their kind and phase.
_LIBRARIES = (
    ("CUBLAS_EVENTS", "nameId", Kind.FRAMEWORK, Phase.UNKNOWN),
    ("CUDNN_EVENTS", "nameId", Kind.FRAMEWORK, Phase.UNKNOWN),
    ("MPI_COLLECTIVES_EVENTS", "textId", Kind.COLLECTIVE, Phase.COMMUNICATION),
    ("MPI_P2P_EVENTS", "textId", Kind.COLLECTIVE, Phase.COMMUNICATION),
    ("MPI_START_WAIT_EVENTS", "textId", Kind.COLLECTIVE, Phase.COMMUNICATION),
)


def add_host_activity(export: Export) -> None:
    """Add the activity of the host."""
    _add_calls(export)
    _add_ranges(export)
    for table in ("PROFILER_OVERHEAD", "CUPTI_ACTIVITY_KIND_OVERHEAD"):
        _add_overhead(export, table)
    for table, column, kind, phase in _LIBRARIES:
        _add_library(export, table, column, kind, phase)
    export.activity.leave_out(
        "OSRT_API",
        "system-call",
        "Calls of the system's libraries do not show what they work on or wait for.",
    )


def _add_calls(export: Export) -> None:
    engine = _autograd_threads(export)
    for rows in export.activity.timed_chunks("CUPTI_ACTIVITY_KIND_RUNTIME", _CALL):
        used = np.unique(rows["nameId"]).tolist()
        names = {i: without_version(export.strings[i]) for i in used if i in export.strings}
        of_autograd = np.isin(rows["globalTid"], engine)
        export.activity.add_calls(
            rows,
            rows["nameId"],
            names,
            track=export.threads(rows),
            correlation=export.correlations(rows),
            phase=np.where(of_autograd, int(Phase.BACKWARD), int(Phase.UNKNOWN)),
        )


def _autograd_threads(export: Export) -> NDArray[np.int64]:
    """Global ids of the threads that PyTorch's autograd engine runs; (threads,)."""
    names = export.database.read("ThreadNames", ("globalTid", "nameId"))
    named = zip(names["globalTid"].tolist(), names["nameId"].tolist(), strict=True)
    engine = [t for t, n in named if export.strings.get(n, "").startswith(_AUTOGRAD)]
    return np.asarray(engine, dtype=np.int64)


def _add_ranges(export: Export) -> None:
    """Add NVTX ranges; the other NVTX records are instants and names."""
    # Names of domains by process and number.
    types = {"eventType": export.event_types("DomainCreate")}
    made = export.database.read("NVTX_EVENTS", _EVENT, ("text",), only=types)
    domains = dict(zip(_domain_keys(made), _texts(export, made), strict=True))

    def ranges(rows: Rows) -> NvtxRanges:
        track = export.threads(rows)
        may_overlap = np.isin(rows["eventType"], export.event_types("StartEndRange"))
        annotation_track = track.copy()
        annotation_track[may_overlap] = export.range_tracks(rows.where(may_overlap))
        names = [domains.get(key, "") for key in _domain_keys(rows)]
        return NvtxRanges(rows, _texts(export, rows), names, track, annotation_track)

    chunks = export.activity.chunks("NVTX_EVENTS", _EVENT, ("text",))
    timed = (export.activity.timed(_closed(export, rows)) for rows in chunks)
    add_ranges(export.activity, map(ranges, timed))


def _domain_keys(rows: Rows) -> list[tuple[int, int]]:
    """Process and number of the domain of each record."""
    processes, numbers = rows["globalTid"] >> 24, rows["domainId"]
    return list(zip(processes.tolist(), numbers.tolist(), strict=True))


def _closed(export: Export, rows: Rows) -> Rows:
    """The ranges with an end; instants, names and open ranges are counted and left out."""
    ranges = np.isin(rows["eventType"], [*export.event_types("Range"), ABSENT])
    export.activity.health.count(
        "nvtx-instant",
        "info",
        "Marks, and names of domains, categories and threads: they carry no time.",
        count=int((~ranges).sum()),
        dropped=True,
    )
    rows = rows.where(ranges)
    ended = rows["end"] != ABSENT
    export.activity.health.count(
        "range-not-closed",
        "info",
        "Ranges that were still open when the recording ended.",
        count=int((~ended).sum()),
        dropped=True,
    )
    return rows.where(ended)


def _texts(export: Export, rows: Rows) -> list[str]:
    """Texts of NVTX records, which are in the record or in the table of strings."""
    pairs = zip(rows.texts["text"], rows["textId"].tolist(), strict=True)
    return [text or export.strings.get(number, "") for text, number in pairs]


def _add_overhead(export: Export, table: str) -> None:
    """Add the overhead of the profiler and of the driver's set-up."""
    columns = (*TIMES, "globalTid", "nameId", "overheadType")
    rows = export.activity.timed(export.activity.read(table, columns))
    kinds = export.enum("ENUM_CUPTI_OVERHEAD_TYPE")

    def name(number: int, kind: int) -> str:
        return export.strings.get(number) or kinds.get(kind, "overhead")

    def slice_kind(number: int, kind: int) -> int:
        text = kinds.get(kind) or name(number, kind)
        if _QUEUE_FULL.search(text):
            return int(Kind.OTHER)
        return int(Kind.COMPILE if _LOADING.search(text) else Kind.PROFILER)

    ids = rows["nameId"], rows["overheadType"]
    export.activity.add(
        rows,
        track=export.threads(rows),
        name=each(lambda n, k: export.activity.intern(name(n, k)), *ids),
        kind=each(slice_kind, *ids),
    )


def _add_library(export: Export, table: str, column: str, kind: Kind, phase: Phase) -> None:
    """Add the calls of a library."""
    for rows in export.activity.timed_chunks(table, (*TIMES, "globalTid", column)):
        export.activity.add(
            rows,
            track=export.threads(rows),
            name=export.activity.names(rows[column], lambda i: export.strings.get(i, table)),
            kind=int(kind),
            phase=int(phase),
        )
