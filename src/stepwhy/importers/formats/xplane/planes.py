"""From the bytes to columns: the planes, lines and events of an XSpace.

Start and end of an event are rounded down to the nanosecond alike, so that what encloses an event
still does. Parts of a plane that share its name, and lines that share an id, are one.

Source: tsl/profiler/protobuf/xplane.proto; `MergePlanes` of tsl/profiler/utils/xplane_utils.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from stepwhy.columns.chunks import chunks
from stepwhy.errors import CorruptInputError
from stepwhy.importers.formats.xplane.collect import Collector
from stepwhy.importers.formats.xplane.events import Events, Labels, Line, Texts, joined
from stepwhy.importers.formats.xplane.layout import (
    MOST_LINES,
    MOST_PLANES,
    Bytes,
    Layout,
    PlaneAt,
    read_layout,
)
from stepwhy.importers.formats.xplane.metadata import Metadata
from stepwhy.importers.formats.xplane.names import needless_ids
from stepwhy.importers.formats.xplane.programs import PLANE as PROGRAMS
from stepwhy.importers.formats.xplane.programs import Programs
from stepwhy.importers.formats.xplane.scan import scan_events
from stepwhy.importers.formats.xplane.sweep import Sweeper
from stepwhy.importers.formats.xplane.varints import Wire
from stepwhy.importers.shared.tensorflow.messages import parse_message
from stepwhy.inputs.source import let_go

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.importers.formats.xplane.sweep import Read, Wanted
    from stepwhy.inputs.source import Source
    from stepwhy.trace import Health

    Ints = NDArray[np.int64]
    Rows = NDArray[np.int32]

# Planes that kernels read at a time: what uses the columns is not faster than two.
_AT_ONCE = 2
_MANY = 1 << 17  # events of a plane that is worth a thread
_NO_HEADS = np.empty(0, dtype=np.int64)
# Times beyond this would leave int64 when added up.
_LARGEST_NS = 1 << 62


class Plane(msgspec.Struct, eq=False):
    """A device, the host, or facts about the session."""

    name: str
    stats: dict[str, int | str]
    lines: list[Line]
    events: Events


class Space(msgspec.Struct, frozen=True):
    """A file: its planes, the texts that their codes stand for, and the programs that ran."""

    planes: list[Plane]
    texts: Texts
    programs: Programs


def read_space(source: Source, health: Health) -> Space:
    """All planes of a file; of a torn one those before the tear, which may be none.

    Args:
        source: A file that was recognised.
        health: Takes what could not be read.

    Raises:
        CorruptInputError: Nothing of the message can be read.
    """
    data = source.mapped
    sweeper = Sweeper.of(data)
    layout = read_layout(data, sweeper.walk if sweeper else None)
    _count_layout(layout, health)
    texts = Texts()
    reader = _Reader(data, sweeper, texts, health)
    whole = reader.read(layout.planes)
    if not layout.torn and not any(plane.name for plane in whole):
        raise CorruptInputError(
            f"{source.origin} is a damaged XPlane profile", "Record the profile again"
        )
    let_go(data, 0, len(data))
    programs = b"".join(plane.rest for plane in layout.planes if plane.name == PROGRAMS)
    return Space(_merged(whole), texts, Programs(programs))


def _count_layout(layout: Layout, health: Health) -> None:
    if layout.torn:
        health.count(
            "protobuf-truncated",
            "error",
            "The file ends before its message does: later events are missing. Totals cover the "
            "readable part only. Copy the file again.",
            dropped=False,
        )
    _count_damaged(layout.damaged, health)
    for counter, what, count in (
        ("plane-left-out", f"Planes beyond the first {MOST_PLANES:,}", layout.planes_left_out),
        ("line-left-out", f"Lines beyond the first {MOST_LINES:,}", layout.lines_left_out),
    ):
        health.count(
            counter,
            "error",
            f"{what} were left out: their events are missing. No profiler writes as many; record "
            "again, or split the file.",
            count=count,
            dropped=False,
        )
    health.count(
        "profiler-error",
        "warning",
        "The profiler reported errors of its own: part of the run may be missing.",
        count=layout.errors,
        dropped=False,
    )


def _count_damaged(count: int, health: Health) -> None:
    health.count(
        "plane-damaged",
        "error",
        "Lengths within these planes contradict each other: all of their events are missing. Copy "
        "the file again, as binary.",
        count=count,
        dropped=False,
    )


class _Described(NamedTuple):
    """A plane of which all but the events is read.

    Args:
        at: Where it is.
        metadata: What its events refer to.
        wanted: The same for kernels, None where there are none, or they are not for it.
    """

    at: PlaneAt
    metadata: Metadata
    wanted: Wanted | None


class _Reader:
    """Decodes planes.

    Args:
        data: The file.
        sweeper: Reads events, where there are kernels.
        texts: Takes all texts.
        health: Takes what could not be read.
    """

    def __init__(self, data: Bytes, sweeper: Sweeper | None, texts: Texts, health: Health) -> None:
        self._data = data
        self._sweeper = sweeper
        self._texts = texts
        self._health = health

    def read(self, planes: list[PlaneAt]) -> list[Plane]:
        """Decode planes, without those whose names cannot be read."""
        found = [one for at in planes if (one := self._described(at)) is not None]
        needless = needless_ids(self._texts)
        for one in found:
            one.metadata.leave_out(needless)
        if self._sweeper is not None:
            found = [one._replace(wanted=one.metadata.for_kernels()) for one in found]
        if sum(one.at.events >= _MANY for one in found) < _AT_ONCE:
            return [self._plane(one, self._sweep(one)) for one in found]
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - takes 5 ms to load

        with ThreadPoolExecutor(_AT_ONCE) as threads:  # kernels run beside the interpreter
            swept = threads.map(self._sweep, found)
            return [self._plane(one, read) for one, read in zip(found, swept, strict=True)]

    def _described(self, at: PlaneAt) -> _Described | None:
        message = parse_message("XPlane", at.rest)
        if message is None:
            _count_damaged(1, self._health)
            return None
        return _Described(at, Metadata(message, self._texts), None)

    def _sweep(self, plane: _Described) -> Read | None:
        """What kernels read; None where they cannot."""
        if self._sweeper is None or plane.wanted is None:
            return None
        return self._sweeper.read(plane.at.lines, plane.wanted)

    def _plane(self, plane: _Described, read: Read | None) -> Plane:
        at, metadata = plane.at, plane.metadata
        lines = [Line(ln.id, ln.name) for ln in at.lines]
        events = self._plain(at, metadata) if read is None else self._swept(at, read, metadata)
        return Plane(at.name, metadata.stats, lines, events)

    def _plain(self, at: PlaneAt, metadata: Metadata) -> Events:
        """Events as NumPy reads them."""
        heads = [np.asarray(line.heads(self._data)) for line in at.lines]
        for line in at.lines:
            line.runs.clear()  # they hold the same
        lines = np.arange(len(heads), dtype=np.int32)
        of_line = np.repeat(lines, [len(of_one) for of_one in heads])
        return self._decoded(at, np.concatenate([_NO_HEADS, *heads]), of_line, metadata)[0]

    def _swept(self, at: PlaneAt, read: Read, metadata: Metadata) -> Events:
        """Events as kernels read them."""
        events = read.events
        metadata.spell(events.labels, read.texts)
        self._health.events_read += len(events) + sum(read.left_out)
        _count_left_out(self._health, 0, *read.left_out)
        return self._with_odd(at, events, read, metadata) if len(read.odd) else events

    def _with_odd(self, at: PlaneAt, events: Events, read: Read, metadata: Metadata) -> Events:
        """The same with those events that kernels left to others, in their places."""
        odd, kept = self._decoded(at, read.odd, read.odd_line, metadata)
        place = np.concatenate([2 * np.arange(len(events)) + 1, 2 * read.odd_row[kept]])
        every = joined([events, odd])
        every.reorder(np.argsort(place, kind="stable"))
        return every

    def _decoded(
        self, at: PlaneAt, heads: Ints, line: Rows, metadata: Metadata
    ) -> tuple[Events, NDArray[np.bool_]]:
        """Events with a name and a usable time, and which of all these are.

        Args:
            at: Their plane.
            heads: Where they begin.
            line: The line of each.
            metadata: What they refer to.
        """
        base_ns = np.array([ln.time_ns for ln in at.lines], dtype=np.int64)
        collected = Collector(len(heads))
        kept = [np.empty(0, dtype=np.bool_)]
        for some in chunks(len(heads)):
            kept.append(self._collect(collected, base_ns, heads[some], line[some], metadata))
            let_go(self._data, int(heads[some][0]), int(heads[some][-1]))
        return collected.finish(), np.concatenate(kept)

    def _collect(
        self, collected: Collector, base_ns: Ints, heads: Ints, line: Rows, metadata: Metadata
    ) -> NDArray[np.bool_]:
        """As `_decoded`, of some events, where every line begins at its own time."""
        scanned = scan_events(Wire(self._data), heads, metadata.wanted)
        base_ns = base_ns[line]
        ids, offset_ps, duration_ps, occurrences = scanned.columns
        start_ns = base_ns + offset_ps // 1000
        # Sums that leave the range of the integers come out negative, and so unusable.
        end_ns = base_ns + (offset_ps + duration_ps) // 1000
        rows = metadata.rows_of(ids)
        names = metadata.names(rows)
        timed = (occurrences == 0) & (start_ns >= 0) & (start_ns <= end_ns) & (end_ns < _LARGEST_NS)
        kept: NDArray[np.bool_] = ~scanned.damaged & (names != 0) & timed
        _count_events(self._health, scanned.damaged, names != 0, occurrences != 0, kept)
        labels = Labels(line, names, *metadata.columns(rows, scanned.stats, self._data))
        dur_ns = end_ns - start_ns
        if not kept.all():
            labels, start_ns, dur_ns = labels.take(kept), start_ns[kept], dur_ns[kept]
        collected.add(labels, start_ns, dur_ns)
        return kept


def _count_events(
    health: Health,
    damaged: NDArray[np.bool_],
    named: NDArray[np.bool_],
    summed: NDArray[np.bool_],
    kept: NDArray[np.bool_],
) -> None:
    health.events_read += len(kept)
    left = ~damaged & named & ~kept
    _count_left_out(
        health,
        int(damaged.sum()),
        int((~damaged & ~named).sum()),
        int((left & summed).sum()),
        int((left & ~summed).sum()),
    )


def _count_left_out(health: Health, damaged: int, unnamed: int, summed: int, untimed: int) -> None:
    health.count(
        "event-damaged",
        "error",
        "These events cannot be read. Copy the file again, as binary.",
        count=damaged,
        dropped=True,
    )
    health.count(
        "event-without-name",
        "error",
        "The names of these events are missing from the file.",
        count=unnamed,
        dropped=True,
    )
    health.count(
        "event-aggregated",
        "warning",
        "These events are sums over many: when those ran is not recorded.",
        count=summed,
        dropped=True,
    )
    health.count(
        "event-without-time",
        "warning",
        "These events have no usable start or duration.",
        count=untimed,
        dropped=True,
    )


def _merged(planes: list[Plane]) -> list[Plane]:
    """Planes of the same name as one: the profiler divides large ones."""
    by_name: dict[str, list[Plane]] = {}
    for plane in planes:
        by_name.setdefault(plane.name, []).append(plane)
    return [merge(name, parts) for name, parts in by_name.items()]


def merge(name: str, planes: list[Plane]) -> Plane:
    """Several planes as one, and lines of the same id as one line.

    Args:
        name: Name of the result.
        planes: What a line is called in the first of them holds.
    """
    places: dict[int | str, int] = {}
    lines: list[Line] = []
    for plane in planes:
        moved = [_place(line, places, lines) for line in plane.lines]
        if moved != list(range(len(moved))):
            labels = plane.events.labels
            labels.line = np.array(moved, dtype=np.int32)[labels.line]
    stats = {stat: value for p in reversed(planes) for stat, value in p.stats.items()}
    events = joined([p.events for p in planes])
    _order_by_line(events)
    return Plane(name, stats, lines, events)


def _place(line: Line, places: dict[int | str, int], lines: list[Line]) -> int:
    """Where a line is among all, added at first sight; those without an id go by their name."""
    place = places.setdefault(line.id or line.name, len(lines))
    if place == len(lines):
        lines.append(line)
    elif not lines[place].name:
        lines[place] = line
    return place


def _order_by_line(events: Events) -> None:
    line = events.line
    if not (line[1:] >= line[:-1]).all():
        events.reorder(np.argsort(line, kind="stable"))
