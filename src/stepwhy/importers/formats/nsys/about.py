"""What an export says about the run as a whole; of what it says about the machine, next to nothing.

The tables of settings and of the machine hold the environment, the command, users and hosts. Only
the names of what was traced are looked at.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stepwhy.importers.shared.cuda_rows import ABSENT
from stepwhy.patterns import regex
from stepwhy.trace import Kind, Meta

if TYPE_CHECKING:
    from stepwhy.importers.formats.nsys.export import Export

_TRACED = "CAPTURE_EVENT_TYPE"
# Severities of messages: 1 information, 2 warning, 3 error, 4 fatal.
_WARNING = 2
_LOST = regex(
    r"not all .*(events|data).*collected|(events?|records?|data) (were|was|have been|had been|has "
    r"been)? ?(lost|dropped|discarded)|(dropped|lost|discarded) [1-9]\d* ",
    re.IGNORECASE,
)
_DEVICE = {Kind.KERNEL, Kind.COLLECTIVE, Kind.MEMCPY, Kind.MEMSET}
_CALLS = {Kind.LAUNCH, Kind.RUNTIME, Kind.SYNC}

_WHY_NOTHING = {
    True: "CUDA was traced, but nothing used it",
    False: "CUDA was not traced",
    None: "CUDA was not traced, or nothing used it",
}
_RECORD_AGAIN = "Record with 'nsys profile --trace=cuda,nvtx'"


def count_messages(export: Export) -> None:
    """Count the profiler's messages, and say where it tells that it lost records."""
    rows = export.rows.read("DIAGNOSTIC_EVENT", ("severity",), ("text",))
    severities = rows["severity"].tolist()
    lost = sum(
        (s >= _WARNING or s == ABSENT) and _LOST.search(t) is not None
        for s, t in zip(severities, rows.texts["text"], strict=True)
    )
    health = export.rows.health
    health.count(
        "profiler-message",
        "info",
        "Messages of the profiler about its own work.",
        count=len(rows),
        dropped=True,
    )
    health.count(
        "profiler-lost-records",
        "error",
        "The profiler says that it lost records: what the trace shows is not all that happened. "
        "Record a shorter stretch, or trace less.",
        count=lost,
        dropped=False,
    )


def meta_of(format_name: str, export: Export) -> Meta:
    """Facts about the run."""
    kinds = export.rows.kinds
    traced = _traced_cuda(export)
    # Only where CUDA was traced and nothing used it on a machine without a GPU, there was none.
    expected = bool(kinds & (_DEVICE | _CALLS)) or len(export.gpus) > 0 or not traced
    limit = _limit(export, traced) if expected and not kinds & _DEVICE else ""
    signals = export.rows.signals()
    return Meta(
        format=format_name,
        framework=export.rows.framework(),
        signals=signals | {"ranges"} if limit else signals,
        device_expected=expected,
        notes=tuple(export.rows.notes) if kinds else (f"Nothing is in it: {limit}.",),
        limit=limit,
    )


def _limit(export: Export, traced: bool | None) -> str:
    """Why the export cannot show what the GPU did."""
    kinds = export.rows.kinds
    if kinds & _CALLS:
        return f"the file holds calls of the CUDA API, but nothing that a GPU did. {_RECORD_AGAIN}"
    held = "named ranges (NVTX), but nothing" if kinds else "nothing"
    return f"the file holds {held} that a GPU did: {_WHY_NOTHING[traced]}. {_RECORD_AGAIN}"


def _traced_cuda(export: Export) -> bool | None:
    """Whether CUDA was asked to be traced, None where that is not recorded."""
    rows = export.database.read("META_DATA_CAPTURE", (), ("name", "value"))
    written = zip(rows.texts["name"], rows.texts["value"], strict=True)
    traced = {value.lower() for name, value in written if name == _TRACED}
    return any("cuda" in value for value in traced) if traced else None
