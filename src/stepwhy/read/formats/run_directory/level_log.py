"""Converts the lines of a level log to rows of a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from stepwhy.read.formats.run_directory.records import DAMAGED, Int
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.trace import TraceBuilder


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
