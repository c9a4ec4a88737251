"""Facts about the run as a whole, and the profiler's messages.

The tables of settings and of the machine also contain the environment, the command, users and
hosts: only the list of traced interfaces is read from them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stepwhy.base.patterns import regex
from stepwhy.read.shared.cuda_activity import ABSENT, CALL_KINDS, DEVICE_KINDS

if TYPE_CHECKING:
    from stepwhy.read.formats.nsys.export import Export
    from stepwhy.trace import Meta

_TRACED = "CAPTURE_EVENT_TYPE"
# Severities of messages: 1 information, 2 warning, 3 error, 4 fatal.
_WARNING = 2
_LOST = regex(
    r"not all .*(events|data).*collected|(events?|records?|data) (were|was|have been|had been|has "
    r"been)? ?(lost|dropped|discarded)|(dropped|lost|discarded) [1-9]\d* ",
    re.IGNORECASE,
)
_WHY_NOTHING = {
    True: "CUDA was traced, but nothing used it",
    False: "CUDA was not traced",
    None: "CUDA was not traced, or nothing used it",
}
_RECORD_AGAIN = "Record with 'nsys profile --trace=cuda,nvtx'"


def count_messages(export: Export) -> None:
    """Count the profiler's messages, and those that report lost records."""
    rows = export.activity.read("DIAGNOSTIC_EVENT", ("severity",), ("text",))
    severities = rows["severity"].tolist()
    lost = sum(
        (s >= _WARNING or s == ABSENT) and _LOST.search(t) is not None
        for s, t in zip(severities, rows.texts["text"], strict=True)
    )
    health = export.activity.health
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
        "The profiler reports that it lost records: the trace is incomplete. Record a shorter "
        "time, or trace less.",
        count=lost,
        dropped=False,
    )


def meta_of(format_name: str, export: Export) -> Meta:
    """Facts about the run."""
    kinds = export.activity.kinds
    # Whether the profiler was set up to trace CUDA; None if that is not recorded.
    rows = export.database.read("META_DATA_CAPTURE", (), ("name", "value"))
    settings = zip(rows.texts["name"], rows.texts["value"], strict=True)
    what = {value.lower() for name, value in settings if name == _TRACED}
    traced = any("cuda" in value for value in what) if what else None
    # No device is expected only if CUDA was traced and unused, on a machine without a GPU.
    expected = bool(kinds & (DEVICE_KINDS | CALL_KINDS)) or len(export.gpus) > 0 or not traced
    limit = _limit(export, traced) if expected and not kinds & DEVICE_KINDS else ""
    return export.activity.meta(format_name, limit, device_expected=expected)


def _limit(export: Export, traced: bool | None) -> str:
    """Why the export does not show the work of the GPU."""
    kinds = export.activity.kinds
    if kinds & CALL_KINDS:
        return f"the file holds calls of the CUDA API, but nothing that a GPU did. {_RECORD_AGAIN}"
    held = "named ranges (NVTX), but nothing" if kinds else "nothing"
    return f"the file holds {held} that a GPU did: {_WHY_NOTHING[traced]}. {_RECORD_AGAIN}"
