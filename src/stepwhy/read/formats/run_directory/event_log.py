"""Converts the lines of the logs of events and levels to rows of a trace."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import msgspec

from stepwhy.read.formats.run_directory.records import DAMAGED, Int
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stepwhy.trace import TraceBuilder


class Event(msgspec.Struct):
    """One line of events.jsonl; text missing from the framework is ''."""

    kind: str
    start_ns: Int
    end_ns: Int
    name: str
    reason: str = ""
    source: str = ""
    count: Int | None = None


def read_events(lines: Sequence[bytes]) -> list[Event]:
    """The events of a log; torn lines are skipped.

    Args:
        lines: The lines of `events.jsonl`.
    """
    found = []
    decode = msgspec.json.Decoder(Event).decode
    for line in lines:
        with contextlib.suppress(*DAMAGED):
            found.append(decode(line))
    return found


def add_events(events: Iterable[Event], builder: TraceBuilder) -> None:
    """Add events to `events`.

    Args:
        events: The events.
        builder: Takes the rows.
    """
    for event in events:
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


class _Level(msgspec.Struct):
    """One line of levels.jsonl; no capacity if it is unbounded or unknown."""

    kind: str
    time_ns: Int
    name: str
    value: Int
    capacity: Int | None = None
    reserve: Int = 0


def add_levels(lines: Sequence[bytes], builder: TraceBuilder) -> None:
    """Add the samples of a log to `levels`; torn lines are skipped.

    Args:
        lines: The lines of `levels.jsonl`.
        builder: Takes the rows.
    """
    for line in lines:
        try:
            level = msgspec.json.decode(line, type=_Level)
        except DAMAGED:
            continue
        builder.add(
            "levels",
            time_ns=level.time_ns,
            queue=builder.intern(level.name),
            kind=builder.intern(level.kind),
            value=level.value,
            capacity=NULL if level.capacity is None else level.capacity,
            reserve=level.reserve,
        )
