"""Find the planes, lines and events of an XSpace by their byte offsets.

Only the names and times of lines are decoded. A length that exceeds the enclosing message is
damage. A length that exceeds the file means that the file is truncated: everything before its end
is still valid.

Source: tsl/profiler/protobuf/xplane.proto.
"""

from __future__ import annotations

import mmap
from array import array
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec

from stepwhy.read.inputs.source import let_go
from stepwhy.read.shared.tensorflow.graphs import text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_FIXED = {_FIXED64: 8, _FIXED32: 4}
_SPACE_PLANES, _SPACE_ERRORS = 1, 2
_PLANE_NAME, _PLANE_LINES = 2, 3
_LINE_ID, _LINE_NAME, _LINE_TIME, _LINE_SHOWN = 1, 2, 3, 11
_EVENT_TAG = 4 << 3 | _LENGTH
_PLANES_TAG = _SPACE_PLANES << 3 | _LENGTH
_ENTRY_TAGS = (4 << 3 | _LENGTH, 5 << 3 | _LENGTH)  # descriptions of events and statistics
_MAX_HEAD = 12  # bytes of a tag and a length
_CHUNK = 1 << 23  # bytes of a mapped file read at a time
MOST_PLANES = 4096
"""Limit of planes per file; a file has one plane per device and a few others."""
MOST_LINES = 1 << 16
"""Limit of lines per file: threads, streams and cores."""
# End of the file's message, which is not recorded.
_UNKNOWN_END = 1 << 80


Bytes: TypeAlias = bytes | mmap.mmap
"""The bytes of a file or of a message."""


class DamagedError(ValueError):
    """The lengths in a message contradict each other."""


class Part(NamedTuple):
    """A protobuf field.

    Args:
        number: Field number.
        wire: Wire type.
        value: Value of a varint; for other types, the offset of the contents.
        at: Offset of the field.
        end: End of the field.
    """

    number: int
    wire: int
    value: int
    at: int
    end: int


class Run(NamedTuple):
    """Consecutive fields with the same tag, usually events.

    Args:
        at: Offset of the first field.
        end: End of the last field.
        events: Number of fields.
        heads: Offset of each field, None if not recorded.
    """

    at: int
    end: int
    events: int
    heads: array[int] | None = None


Walk: TypeAlias = "Callable[[int, int, int], list[Run]]"
"""Finds consecutive fields with a tag: `walk(offset, limit, tag)`."""


class LineAt(msgspec.Struct):
    """A line and the offsets of its events.

    Args:
        id: Id of the thread or stream.
        name: Display name.
        time_ns: Start of the line, ns.
        runs: Events.
    """

    id: int = 0
    name: str = ""
    time_ns: int = 0
    runs: list[Run] = msgspec.field(default_factory=list)

    @property
    def count(self) -> int:
        """Number of events."""
        return sum(run.events for run in self.runs)

    def heads(self, data: Bytes) -> array[int]:
        """Offset of every event."""
        found = array("q")
        for run in self.runs:
            again = walk_plainly(data, run.at, run.end, _EVENT_TAG) if run.heads is None else [run]
            for chunk in again:
                found.extend(chunk.heads or ())
        return found


class PlaneAt(msgspec.Struct):
    """A plane: its name, its lines, and the bytes of all its other fields."""

    name: str = ""
    lines: list[LineAt] = msgspec.field(default_factory=list)
    rest: bytes = b""

    @property
    def events(self) -> int:
        """Number of events of all lines."""
        return sum(line.count for line in self.lines)


class Layout(msgspec.Struct):
    """The planes of an XSpace.

    Args:
        planes: Planes in file order.
        errors: Number of errors that the profiler reported.
        torn: Whether the file is truncated.
        damaged: Number of planes left out because of contradictory lengths.
        planes_left_out: Number of planes beyond `MOST_PLANES`.
        lines_left_out: Number of lines beyond `MOST_LINES`.
        lines: Number of lines in all.
    """

    planes: list[PlaneAt] = msgspec.field(default_factory=list)
    errors: int = 0
    torn: bool = False
    damaged: int = 0
    planes_left_out: int = 0
    lines_left_out: int = 0
    lines: int = 0


def read_layout(data: Bytes, walk: Walk | None = None) -> Layout:
    """Find all planes; the last plane of a truncated file may be incomplete.

    Args:
        data: The file.
        walk: A compiled replacement for `walk_plainly`.
    """
    layout = Layout()
    walk = walk or partial(walk_plainly, data)
    try:
        at = 0
        while at < len(data):
            if len(layout.planes) >= MOST_PLANES:
                at = _pass_planes(layout, at, len(data), walk)
            for part in parts(data, at, _UNKNOWN_END):
                at = part.end
                layout.torn |= part.end > len(data)
                if part.number == _SPACE_ERRORS:
                    layout.errors += 1
                elif part.number == _SPACE_PLANES and part.wire == _LENGTH:
                    _add_plane(layout, data, part, walk)
                    if layout.planes_left_out:
                        break  # many more may follow
    except DamagedError:
        layout.torn = True
    return layout


def parts(data: Bytes, at: int, end: int) -> Iterator[Part]:
    """Fields from `at` to `end`; in a truncated file, the last one ends after the data.

    Raises:
        DamagedError: A field is invalid, or ends after `end`.
    """
    limit = min(end, len(data))
    while at < limit:
        tag, value = _varint(data, at, end)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, after = _varint(data, value, end)
        elif wire == _LENGTH:
            size, value = _varint(data, value, end)
            after = value + size
        elif wire in _FIXED:
            after = value + _FIXED[wire]
        else:
            raise DamagedError
        if number == 0:
            raise DamagedError
        if after > end:
            _overrun(data, after, end)
        yield Part(number, wire, value, at, after)
        at = after


def inside(data: Bytes, at: int, end: int, *path: int) -> Iterator[Part]:
    """All complete fields under a path of field numbers, in order.

    Raises:
        DamagedError: As `parts`.
    """
    for part in parts(data, at, end):
        if part.number != path[0] or part.end > len(data):
            continue
        if len(path) == 1:
            yield part
        elif part.wire == _LENGTH:
            yield from inside(data, part.value, part.end, *path[1:])


def _add_plane(layout: Layout, data: Bytes, part: Part, walk: Walk) -> None:
    if len(layout.planes) >= MOST_PLANES:
        layout.planes_left_out += 1
        return
    try:
        layout.planes.append(_plane(layout, data, part.value, part.end, walk))
    except DamagedError:
        layout.damaged += 1


def _pass_planes(layout: Layout, at: int, limit: int, walk: Walk) -> int:
    """Count consecutive planes from `at`; returns their end."""
    for run in walk(at, limit, _PLANES_TAG):
        layout.planes_left_out += run.events
        at = run.end
    return at


def _plane(layout: Layout, data: Bytes, at: int, end: int, walk: Walk) -> PlaneAt:
    plane = PlaneAt()
    rest = []
    while at < min(end, len(data)):
        for tag in _ENTRY_TAGS:
            for run in walk(at, min(end, len(data)), tag):
                rest.append(data[at : run.end])
                at = run.end
        for part in parts(data, at, end):
            at = part.end
            if part.number == _PLANE_LINES and part.wire == _LENGTH:
                layout.lines += 1
                if layout.lines > MOST_LINES:
                    layout.lines_left_out += 1
                else:
                    plane.lines.append(_line(data, part.value, part.end, walk))
            elif part.end <= len(data):
                rest.append(data[part.at : part.end])
                if part.number == _PLANE_NAME and part.wire == _LENGTH:
                    plane.name = text(data[part.value : part.end])
            if part.number << 3 | part.wire in _ENTRY_TAGS:
                break  # many more may follow
    plane.rest = b"".join(rest)
    return plane


def _line(data: Bytes, at: int, end: int, walk: Walk) -> LineAt:
    line = LineAt()
    shown = ""
    while at < min(end, len(data)):
        at = _events(data, at, end, line, walk)
        for part in parts(data, at, end):
            if part.number == _EVENT_TAG >> 3 and part.wire == _LENGTH:
                break  # events again
            at = part.end
            if part.end <= len(data):
                shown = _note(line, data, part) or shown
    line.name = shown or line.name
    return line


def _note(line: LineAt, data: Bytes, part: Part) -> str:
    """Store a field of a line other than an event; returns it if it is the display name."""
    if part.number == _LINE_ID and part.wire == _VARINT:
        line.id = as_int64(part.value)
    elif part.number == _LINE_TIME and part.wire == _VARINT:
        line.time_ns = as_int64(part.value)
    elif part.number == _LINE_NAME and part.wire == _LENGTH:
        line.name = text(data[part.value : part.end])
    elif part.number == _LINE_SHOWN and part.wire == _LENGTH:
        return text(data[part.value : part.end])
    return ""


def _events(data: Bytes, at: int, end: int, line: LineAt, walk: Walk) -> int:
    """Add consecutive events from `at` to a line; returns their end."""
    limit = min(end, len(data))
    while True:
        runs = walk(at, limit, _EVENT_TAG)
        line.runs += runs
        at = runs[-1].end if runs else at
        if at >= limit or data[at] != _EVENT_TAG:
            return at
        size, body = _varint(data, at + 1, end)
        if body + size > limit:
            return _overrun(data, body + size, end)
        # The length is encoded in more bytes than needed.
        line.runs.append(Run(at, body + size, 1, array("q", [at])))
        at = body + size


def walk_plainly(data: Bytes, at: int, limit: int, tag: int) -> list[Run]:
    """Plain Python implementation of `Walk`."""
    runs: list[Run] = []
    while (run := _walk_chunk(data, at, limit, tag)) is not None:
        let_go(data, run.at, run.end)
        runs.append(run)
        at = run.end
    return runs


def _walk_chunk(data: Bytes, at: int, limit: int, tag: int) -> Run | None:
    """Fields within one chunk of the file, None if there are none."""
    heads = array("q")
    note = heads.append
    first = at
    safe = limit - _MAX_HEAD
    goal = min(safe, at + _CHUNK)
    while at < goal and data[at] == tag:
        note(at)
        size = data[at + 1]
        if size < 0x80:
            at += size + 2
        else:
            at = _field_end(data, at)
    while safe <= at < limit and data[at] == tag:
        note(at)
        at = _field_end(data, at)
    if at > limit:
        at = heads.pop()
    return Run(first, at, len(heads), heads) if heads else None


def _field_end(data: Bytes, at: int) -> int:
    """End of a field; for a truncated or damaged one, beyond all data."""
    try:
        size, body = _varint(data, at + 1, _UNKNOWN_END)
    except DamagedError:
        return _UNKNOWN_END
    return body + size if body <= len(data) else _UNKNOWN_END


def _overrun(data: Bytes, after: int, end: int) -> int:
    """End of a field that exceeds its message: damage, unless the message is truncated itself.

    A truncated field is inside truncated messages only, so `end` is after the data, too.
    """
    if end <= len(data):
        raise DamagedError
    return min(after, end)


def _varint(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Value of a varint and its end; a truncated one is 0 and ends after the data."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            return 0, _overrun(data, at + 1, end)
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
    raise DamagedError


def as_int64(value: int) -> int:
    """A 64-bit number as a signed integer (two's complement)."""
    value &= 0xFFFFFFFFFFFFFFFF
    return value - (1 << 64) if value >> 63 else value
