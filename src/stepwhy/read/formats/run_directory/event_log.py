"""Converts the lines of an event log to rows of a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from stepwhy.read.formats.run_directory.records import DAMAGED, Int
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.trace import TraceBuilder


class _Event(msgspec.Struct):
    """One line of events.jsonl; text missing from the framework is ''."""

    kind: str
    start_ns: Int
    end_ns: Int
    name: str
    reason: str = ""
    source: str = ""
    count: Int | None = None


def add_events(lines: Sequence[bytes], builder: TraceBuilder) -> None:
    """Add the lines of a log to `events`; torn ones are skipped.

    Args:
        lines: The lines of `events.jsonl`.
        builder: Takes the rows.
    """
    for line in lines:
        try:
            event = msgspec.json.decode(line, type=_Event)
        except DAMAGED:
            continue
        builder.add(
            "events",
            kind=builder.intern(event.kind),
            start_ns=event.start_ns,
            dur_ns=max(event.end_ns - event.start_ns, 0),
            name=builder.intern(event.name),
            reason=_text(builder, event.reason),
            source=_text(builder, event.source),
            count=NULL if event.count is None else event.count,
        )


def _text(builder: TraceBuilder, text: str) -> int:
    """Interned id of a text; NULL for an empty one."""
    return builder.intern(text) if text else NULL
