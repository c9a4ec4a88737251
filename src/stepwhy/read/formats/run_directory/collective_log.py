"""Converts when a rank entered its latest collectives to rows of a trace."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import msgspec

from stepwhy.read.formats.run_directory.records import DAMAGED, is_later
from stepwhy.read.inputs.side_files import decompressed
from stepwhy.read.shared.recorder_dump import add_dump

if TYPE_CHECKING:
    from stepwhy.trace import TraceBuilder

COLLECTIVES_FILE = "collectives.json.gz"

_SCHEMA = "stepwhy.collectives/1"
_MOST_BYTES = 1 << 26  # decompressed; 4,000 collectives take 2 MB
_UNREADABLE = (
    f"{COLLECTIVES_FILE} is damaged. It was left out, so it is not known when this rank entered "
    "its collectives."
)
_NEWER = f"{COLLECTIVES_FILE} is of a later version of stepwhy. It was left out."


class _Log(msgspec.Struct):
    """collectives.json.gz; see `record.torch.arrivals`."""

    schema: str
    recorder: dict[str, Any] = {}


def add_collectives(data: bytes, builder: TraceBuilder, *, one_clock: bool) -> list[str]:
    """Add `collectives.json.gz` of a run that ended well to `collective_calls`.

    Args:
        data: The file; empty if there is none.
        builder: Takes the rows.
        one_clock: Whether all ranks of the job were on this machine; times of ranks cannot be
            compared otherwise.

    Returns:
        What was left out, in sentences.
    """
    if not data:
        return []
    try:
        content = decompressed(data, _MOST_BYTES)
        if is_later(content, _SCHEMA):
            return [_NEWER]
        log = msgspec.json.decode(content, type=_Log)
    except (*DAMAGED, zlib.error):
        return [_UNREADABLE]
    entries = log.recorder.get("entries")
    if log.schema != _SCHEMA or not isinstance(entries, list):
        return [_UNREADABLE]
    # What ended well has left all of its collectives.
    known = [
        {**entry, "retired": True} | ({} if one_clock else {"time_created_ns": 0})
        for entry in entries
        if isinstance(entry, dict)
    ]
    add_dump({**log.recorder, "entries": known}, builder)
    return []
