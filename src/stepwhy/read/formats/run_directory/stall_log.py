"""Converts where a process stood in a step that took much longer than usual to rows of a trace."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from stepwhy.read.formats.run_directory.records import DAMAGED, Int, is_later
from stepwhy.read.shared.recorder_dump import add_dump
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from stepwhy.trace import TraceBuilder

STALL_FILE = "stall.json.gz"

_SCHEMA = "stepwhy.stall/1"
_MOST_BYTES = 1 << 26  # decompressed; 4,000 collectives with deep stacks take 20 MB
_MOST_HEAD_BYTES = 1 << 16  # decompressed; 50 lines of the program take 10 kB
_REST = b'"recorder"'  # what follows the lines; within a string, its quotes would be escaped
_GZIP = 16 + zlib.MAX_WBITS
_UNREADABLE = (
    f"{STALL_FILE} is damaged. It was left out, so where this process stood in its last step is "
    "not known."
)
_NEWER = f"{STALL_FILE} is of a later version of stepwhy. It was left out."


class _Stall(msgspec.Struct):
    """stall.json.gz; see `record.steps.stall_watch`."""

    schema: str
    time_ns: Int
    since_ns: Int
    steps: Int = NULL
    usual_ns: Int | None = None
    lines: list[str] = []
    inside: str = ""
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


class Noted(NamedTuple):
    """Where a process stood when it wrote `stall.json.gz`.

    Args:
        since_ns: When its step began.
        time_ns: When it wrote the file.
        line: Its innermost line of the program; '' in code of others.
    """

    since_ns: int
    time_ns: int
    line: str


def noted(data: bytes) -> Noted | None:
    """Where a process stands, without the collectives; None if the file is damaged.

    Args:
        data: The first bytes of `stall.json.gz`; 16 kB are enough for all but the longest names.
    """
    try:
        head = zlib.decompressobj(_GZIP).decompress(data, _MOST_HEAD_BYTES)
    except zlib.error:
        return None
    begin, rest, _ = head.partition(_REST)
    try:
        stall = msgspec.json.decode(begin.rstrip(b", \n") + b"}" if rest else b"", type=_Stall)
    except DAMAGED:
        return None
    if stall.schema != _SCHEMA:
        return None
    return Noted(stall.since_ns, stall.time_ns, stall.lines[-1] if stall.lines else "")


def _add(stall: _Stall, builder: TraceBuilder) -> None:
    builder.add(
        "positions",
        time_ns=stall.time_ns,
        since_ns=stall.since_ns,
        steps=stall.steps,
        usual_ns=NULL if stall.usual_ns is None else stall.usual_ns,
        lines=builder.intern("; ".join(stall.lines)),
        inside=builder.intern(stall.inside) if stall.inside else NULL,
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
