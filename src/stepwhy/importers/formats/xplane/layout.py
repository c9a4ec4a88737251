"""Where the parts of an XSpace lie in its bytes: planes, lines, and the events of each line.

Nothing is decoded but names and times of lines; no byte is copied. Lengths that lead out of the
part around them are told from a file that ends too early: the one is damage, the other can happen
to any copy, and what lies before the end is as good as ever.

Source: tsl/profiler/protobuf/xplane.proto.
"""

from __future__ import annotations

import mmap
from array import array
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec

from stepwhy.importers.shared.tensorflow.graphs import text
from stepwhy.inputs.source import let_go

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
_LONGEST_HEAD = 12  # bytes of a tag and a length
_PIECE = 1 << 23  # bytes of a mapped file that are read at a time
MOST_PLANES = 4096
"""Planes of a file; one is of one host, with a plane per device and some of the profiler's own."""
MOST_LINES = 1 << 16
"""Lines of a file: threads, streams and cores."""
# Where a file should end: it is known of its parts only.
_NOBODY_KNOWS = 1 << 80


Bytes: TypeAlias = bytes | mmap.mmap
"""A file, or a part of one."""


class DamagedError(ValueError):
    """A part whose lengths contradict each other."""


class Part(NamedTuple):
    """A field: its number, and its value or where its bytes lie.

    Args:
        number: Of the field.
        wire: Its wire type.
        value: Of a varint; else where the bytes begin.
        at: Where the field begins.
        end: Where it ends.
    """

    number: int
    wire: int
    value: int
    at: int
    end: int


class Run(NamedTuple):
    """Events, or other fields of one tag, that follow one another.

    Args:
        at: Where the first begins.
        end: Where the last ends.
        events: How many they are.
        heads: Where each begins, if that was noted.
    """

    at: int
    end: int
    events: int
    heads: array[int] | None = None


Walk: TypeAlias = "Callable[[int, int, int], list[Run]]"
"""Finds the fields of a tag that follow one another from a position on and end by a limit."""


class LineAt(msgspec.Struct):
    """A line, and where its events lie.

    Args:
        id: Of the thread or stream.
        name: What is shown of it.
        time_ns: Its start.
        runs: Its events.
    """

    id: int = 0
    name: str = ""
    time_ns: int = 0
    runs: list[Run] = msgspec.field(default_factory=list)

    @property
    def count(self) -> int:
        """How many events it has."""
        return sum(run.events for run in self.runs)

    def heads(self, data: Bytes) -> array[int]:
        """Where the field of every event begins."""
        found = array("q")
        for run in self.runs:
            again = walk_plainly(data, run.at, run.end, _EVENT_TAG) if run.heads is None else [run]
            for piece in again:
                found.extend(piece.heads or ())
        return found


class PlaneAt(msgspec.Struct):
    """A plane: its name, its lines, and the bytes of all its other fields."""

    name: str = ""
    lines: list[LineAt] = msgspec.field(default_factory=list)
    rest: bytes = b""

    @property
    def events(self) -> int:
        """How many events its lines have."""
        return sum(line.count for line in self.lines)


class Layout(msgspec.Struct):
    """What an XSpace consists of.

    Args:
        planes: In order.
        errors: How many errors the profiler reported.
        torn: The file ends before the message does.
        damaged: How many parts were left out as they contradict themselves.
        planes_left_out: How many planes there are beyond `MOST_PLANES`.
        lines_left_out: How many lines there are beyond `MOST_LINES`.
        lines: How many lines there are in all.
    """

    planes: list[PlaneAt] = msgspec.field(default_factory=list)
    errors: int = 0
    torn: bool = False
    damaged: int = 0
    planes_left_out: int = 0
    lines_left_out: int = 0
    lines: int = 0


def read_layout(data: Bytes, walk: Walk | None = None) -> Layout:
    """Find all planes; of a torn file those before the tear, and the part of the last one.

    Args:
        data: The file.
        walk: What finds events, if there is something better than plain Python.
    """
    layout = Layout()
    walk = walk or partial(walk_plainly, data)
    try:
        at = 0
        while at < len(data):
            if len(layout.planes) >= MOST_PLANES:
                at = _pass_planes(layout, at, len(data), walk)
            for part in parts(data, at, _NOBODY_KNOWS):
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
    """Fields from `at` to `end`; the last one ends behind the data where the file is torn.

    Raises:
        DamagedError: A field that is none, or that leads out of `end`.
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
            _beyond(data, after, end)
        yield Part(number, wire, value, at, after)
        at = after


def inside(data: Bytes, at: int, end: int, *path: int) -> Iterator[Part]:
    """All fields under a path of field numbers, in order, as far as they lie in the data.

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
    """Count the planes that follow one another from `at` on; returns where they end."""
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
    """Take over a field of a line that is no event; returns the name to show, if it is that."""
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
    """Note the events that follow one another from `at` on; returns where they end."""
    limit = min(end, len(data))
    while True:
        runs = walk(at, limit, _EVENT_TAG)
        line.runs += runs
        at = runs[-1].end if runs else at
        if at >= limit or data[at] != _EVENT_TAG:
            return at
        size, body = _varint(data, at + 1, end)
        if body + size > limit:
            return _beyond(data, body + size, end)
        # A length with more digits than any needs.
        line.runs.append(Run(at, body + size, 1, array("q", [at])))
        at = body + size


def walk_plainly(data: Bytes, at: int, limit: int, tag: int) -> list[Run]:
    """The fields from `at` on, of which every one must be passed to find the next; see `Walk`."""
    runs: list[Run] = []
    while (run := _walk_piece(data, at, limit, tag)) is not None:
        let_go(data, run.at, run.end)
        runs.append(run)
        at = run.end
    return runs


def _walk_piece(data: Bytes, at: int, limit: int, tag: int) -> Run | None:
    """As many of these fields as are read at a time, None where there is none."""
    heads = array("q")
    note = heads.append
    first = at
    safe = limit - _LONGEST_HEAD
    goal = min(safe, at + _PIECE)
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
    """Where a field ends, behind everything for one without an end."""
    try:
        size, body = _varint(data, at + 1, _NOBODY_KNOWS)
    except DamagedError:
        return _NOBODY_KNOWS
    return body + size if body <= len(data) else _NOBODY_KNOWS


def _beyond(data: Bytes, after: int, end: int) -> int:
    """Where a part ends that reaches behind the data; one that only leads out of `end` is damage.

    What lies around a torn part is torn itself, so that `end` is behind the data, too.
    """
    if end <= len(data):
        raise DamagedError
    return min(after, end)


def _varint(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Value and the position after it; a torn one is 0 and ends behind the data."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            return 0, _beyond(data, at + 1, end)
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
    raise DamagedError


def as_int64(value: int) -> int:
    """A number of 64 bits in two's complement."""
    value &= 0xFFFFFFFFFFFFFFFF
    return value - (1 << 64) if value >> 63 else value
