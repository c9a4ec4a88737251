"""Converts where a process stood in a step that took much longer than usual to rows of a trace."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import msgspec

from stepwhy.importers.formats.run_directory.records import DAMAGED, Int, is_later
from stepwhy.importers.shared.recorder_dump import add_dump
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from stepwhy.trace import TraceBuilder

STALL_FILE = "stall.json.gz"

_SCHEMA = "stepwhy.stall/1"
_MOST_BYTES = 1 << 26  # decompressed; 4,000 collectives with deep stacks take 20 MB
_GZIP = 16 + zlib.MAX_WBITS
_UNREADABLE = (
    f"{STALL_FILE} is damaged. It was left out, so where this process stood in its last step is "
    "not known."
)
_NEWER = f"{STALL_FILE} is of a later version of stepwhy. It was left out."


class _Stall(msgspec.Struct):
    """stall.json.gz; see `capture.stall_watch`."""

    schema: str
    time_ns: Int
    since_ns: Int
    steps: Int = NULL
    usual_ns: Int | None = None
    lines: list[str] = []
    recorder: dict[str, Any] | None = None


def add_stall(data: bytes, last_end_ns: int, builder: TraceBuilder) -> list[str]:
    """Add `stall.json.gz` to `positions` and `collective_calls`, unless the process went on.

    Args:
        data: The file; empty if there is none.
        last_end_ns: End of the last step in the log.
        builder: Takes the rows.

    Returns:
        What was left out, in sentences.
    """
    if not data:
        return []
    content = _decompressed(data)
    if is_later(content, _SCHEMA):
        return [_NEWER]
    try:
        stall = msgspec.json.decode(content, type=_Stall)
    except DAMAGED:
        return [_UNREADABLE]
    if stall.schema != _SCHEMA or stall.since_ns > stall.time_ns:
        return [_UNREADABLE]
    if last_end_ns <= stall.time_ns:
        _add(stall, builder)
    return []


def _add(stall: _Stall, builder: TraceBuilder) -> None:
    builder.add(
        "positions",
        time_ns=stall.time_ns,
        since_ns=stall.since_ns,
        steps=stall.steps,
        usual_ns=NULL if stall.usual_ns is None else stall.usual_ns,
        lines=builder.intern("; ".join(stall.lines)),
    )
    if stall.recorder is not None:
        add_dump(stall.recorder, builder)


def _decompressed(data: bytes) -> bytes:
    """The content of the file; b'' if it is damaged or too large."""
    unpacker = zlib.decompressobj(_GZIP)
    try:
        content = unpacker.decompress(data, _MOST_BYTES)
    except zlib.error:
        return b""
    return content if unpacker.eof else b""


__all__ = ["STALL_FILE", "add_stall"]
