"""Converts the steps in which the running line was noted to rows of a trace."""

from __future__ import annotations

import itertools
import zlib
from typing import TYPE_CHECKING

import msgspec

from stepwhy.read.formats.run_directory.records import DAMAGED, Amount, is_later
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from stepwhy.trace import TraceBuilder

LINES_FILE = "lines.json.gz"

_SCHEMA = "stepwhy.lines/1"
# Decompressed; the longest steps take 10 MB.
_MOST_BYTES = 1 << 25
# A recorded process keeps two steps, of at most 50,000 operations and 200,000 changes of the line.
_MOST_STEPS = 8
_MOST_ROWS = 1 << 20
_GZIP = 16 + zlib.MAX_WBITS
# No step takes a year, so that sums fit into 64 bits.
_LONGEST_NS = 365 * 86_400 * 10**9
_UNREADABLE = (
    f"{LINES_FILE} is damaged or too large. It was left out, so times by line of the program are "
    "less exact."
)
_NEWER = (
    f"{LINES_FILE} is of a later version of stepwhy. It was left out, so times by line of the "
    "program are less exact."
)
_INCOMPLETE = f"A step in {LINES_FILE} is damaged. It was left out."


class _Step(msgspec.Struct):
    """Consecutive rows of a step, by column; see `record.windows.line_file`."""

    step: Amount
    op: list[int]
    line: list[int]
    dur_ns: list[Amount]
    engine: list[int]
    module: list[int] = []  # missing in files of earlier versions


class _Lines(msgspec.Struct):
    """lines.json.gz."""

    schema: str
    strings: list[str]
    steps: list[msgspec.Raw]


def add_lines(data: bytes, builder: TraceBuilder) -> list[str]:
    """Add `lines.json.gz` to `line_times`; of a damaged file, what is whole.

    Args:
        data: The file; empty if there is none.
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
        lines = msgspec.json.decode(content, type=_Lines)
    except DAMAGED:
        return [_UNREADABLE]
    too_many = len(lines.steps) > _MOST_STEPS or len(lines.strings) > _MOST_ROWS
    if lines.schema != _SCHEMA or too_many:
        return [_UNREADABLE]
    whole = [step for raw in lines.steps if (step := _step(raw, len(lines.strings))) is not None]
    ascending = all(a.step < b.step for a, b in itertools.pairwise(whole))
    if not ascending or sum(len(step.dur_ns) for step in whole) > _MOST_ROWS:
        return [_UNREADABLE]
    strings = builder.intern_all(lines.strings)
    for step in whole:
        _add(step, [*strings, NULL], builder)
    return [_INCOMPLETE] if len(whole) < len(lines.steps) else []


def _step(raw: msgspec.Raw, strings: int) -> _Step | None:
    """A step; None if it is damaged.

    Args:
        raw: Its JSON.
        strings: Number of the strings that its columns index.
    """
    try:
        step = msgspec.json.decode(raw, type=_Step)
    except DAMAGED:
        return None
    step.module = step.module or [NULL] * len(step.op)
    return step if _is_whole(step, strings) else None


def _decompressed(data: bytes) -> bytes:
    """The content of a compressed file; empty if it is damaged, too large or cut off.

    Only at its end is it known whether what came before is as it was written.
    """
    stream = zlib.decompressobj(_GZIP)
    try:
        content = stream.decompress(data, _MOST_BYTES)
    except zlib.error:
        return b""
    return content if stream.eof else b""


def _is_whole(step: _Step, strings: int) -> bool:
    """Whether the columns of a step fit together."""
    columns = (step.op, step.line, step.dur_ns, step.engine, step.module)
    named = (step.op, step.line, step.module)
    return (
        bool(step.dur_ns)
        and len({len(column) for column in columns}) == 1
        and all(-1 <= number < strings for column in named for number in column)
        and set(step.engine) <= {0, 1}
        and sum(step.dur_ns) <= _LONGEST_NS
    )


def _add(step: _Step, strings: list[int], builder: TraceBuilder) -> None:
    rows = zip(step.op, step.line, step.dur_ns, step.engine, step.module, strict=True)
    for op, line, dur_ns, engine, module in rows:
        builder.add(
            "line_times",
            step=step.step,
            op=strings[op],  # -1 is the last one
            line=strings[line],
            dur_ns=dur_ns,
            engine=engine,
            module=strings[module],
        )
