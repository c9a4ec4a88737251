"""Decode the planes, lines and events of an XSpace into columns.

Both the start and the end of an event are rounded down to the nanosecond, so that nested events
stay nested. Planes with the same name are merged, and so are their lines with the same id.

Source: tsl/profiler/protobuf/xplane.proto; `MergePlanes` of tsl/profiler/utils/xplane_utils.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from stepwhy.base.columns.chunks import chunks
from stepwhy.base.errors import CorruptInputError
from stepwhy.read.formats.xplane.collect import Collector
from stepwhy.read.formats.xplane.events import Events, Labels, Line, Texts, joined
from stepwhy.read.formats.xplane.layout import (
    MOST_LINES,
    MOST_PLANES,
    Bytes,
    Layout,
    PlaneAt,
    read_layout,
)
from stepwhy.read.formats.xplane.metadata import Metadata
from stepwhy.read.formats.xplane.names import unused_ids
from stepwhy.read.formats.xplane.programs import PLANE as PROGRAMS
from stepwhy.read.formats.xplane.programs import Programs
from stepwhy.read.formats.xplane.scan import scan_events
from stepwhy.read.formats.xplane.sweep import Sweeper
from stepwhy.read.formats.xplane.varints import Wire
from stepwhy.read.inputs.source import let_go
from stepwhy.read.shared.several_files import count_joined, messages_joined
from stepwhy.read.shared.tensorflow.messages import parse_message
from stepwhy.read.shared.tensorflow.sidecars import program_sources

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.base.columns.types import Ints
    from stepwhy.read.formats.xplane.sweep import Request, SweptEvents
    from stepwhy.read.inputs.source import Source
    from stepwhy.read.shared.tensorflow.node_lines import NodeLines
    from stepwhy.trace import Health

    Rows = NDArray[np.int32]

# Planes that kernels read at the same time; the rest of the importer is not faster than two.
_AT_ONCE = 2
_MANY = 1 << 17  # events from which a plane is worth a thread
_NO_HEADS = np.empty(0, dtype=np.int64)
# Sums of larger times could overflow int64.
_LARGEST_NS = 1 << 62


class Plane(msgspec.Struct, eq=False):
    """A plane: a device, the host, or facts about the session."""

    name: str
    stats: dict[str, int | str]
    lines: list[Line]
    events: Events


class Space(msgspec.Struct, frozen=True):
    """A file: its planes, the texts that their codes refer to, and the programs that ran.

    `lines` finds the line of the program that causes a node of a graph; `callers` has the line that
    calls a function of TensorFlow, by its name.
    """

    planes: list[Plane]
    texts: Texts
    programs: Programs
    lines: NodeLines
    callers: dict[str, str]


def read_space(source: Source, health: Health) -> Space:
    """Read all planes of a file; of a truncated file, those before its end, which may be none.

    Args:
        source: A file that was recognised.
        health: Counts what could not be read.

    Raises:
        CorruptInputError: Nothing of the message can be read.
    """
    data = source.mapped
    sweeper = Sweeper.of(data)
    layout = read_layout(data, sweeper.walk if sweeper else None)
    _count_layout(layout, health)
    count_joined(health, messages_joined(data, ()))
    texts = Texts()
    reader = _Reader(data, sweeper, texts, health)
    whole = reader.read(layout.planes)
    if not layout.torn and not any(plane.name for plane in whole):
        raise CorruptInputError(
            f"{source.origin} is a damaged XPlane profile", "Record the profile again"
        )
    let_go(data, 0, len(data))
    programs = b"".join(plane.rest for plane in layout.planes if plane.name == PROGRAMS)
    known = program_sources(source, health)
    lines = known.node_lines({})
    return Space(_merged(whole), texts, Programs(programs), lines, known.callers)


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


class _PlaneHead(NamedTuple):
    """A plane whose events are still to be read.

    Args:
        at: Offsets of its contents.
        metadata: What its events refer to.
        request: What kernels have to read; None if they are not used.
    """

    at: PlaneAt
    metadata: Metadata
    request: Request | None


class _Reader:
    """Decodes planes.

    Args:
        data: The file.
        sweeper: Reads events with kernels; None to use NumPy.
        texts: Interns all texts.
        health: Counts what could not be read.
    """

    def __init__(self, data: Bytes, sweeper: Sweeper | None, texts: Texts, health: Health) -> None:
        self._data = data
        self._sweeper = sweeper
        self._texts = texts
        self._health = health

    def read(self, planes: list[PlaneAt]) -> list[Plane]:
        """Decode planes, except those whose metadata is damaged."""
        heads = [head for at in planes if (head := self._head(at)) is not None]
        unused = unused_ids(self._texts)
        for head in heads:
            head.metadata.leave_out(unused)
        if self._sweeper is not None:
            heads = [head._replace(request=head.metadata.request()) for head in heads]
        if sum(head.at.events >= _MANY for head in heads) < _AT_ONCE:
            return [self._plane(head, self._sweep(head)) for head in heads]
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - takes 5 ms to load

        with ThreadPoolExecutor(_AT_ONCE) as threads:  # kernels release the interpreter lock
            results = threads.map(self._sweep, heads)
            return [self._plane(head, swept) for head, swept in zip(heads, results, strict=True)]

    def _head(self, at: PlaneAt) -> _PlaneHead | None:
        """Read all but the events of a plane; None if it is damaged."""
        message = parse_message("XPlane", at.rest)
        if message is None:
            _count_damaged(1, self._health)
            return None
        return _PlaneHead(at, Metadata(message, self._texts), None)

    def _sweep(self, head: _PlaneHead) -> SweptEvents | None:
        """Read events with kernels; None if they cannot read them."""
        if self._sweeper is None or head.request is None:
            return None
        return self._sweeper.read(head.at.lines, head.request)

    def _plane(self, head: _PlaneHead, swept: SweptEvents | None) -> Plane:
        at, metadata = head.at, head.metadata
        lines = [Line(ln.id, ln.name) for ln in at.lines]
        events = self._scan(at, metadata) if swept is None else self._swept(at, swept, metadata)
        return Plane(at.name, metadata.stats, lines, events)

    def _scan(self, at: PlaneAt, metadata: Metadata) -> Events:
        """Read all events of a plane with NumPy."""
        heads = [np.asarray(line.heads(self._data)) for line in at.lines]
        for line in at.lines:
            line.runs.clear()  # frees their offsets, which are in `heads`
        lines = np.arange(len(heads), dtype=np.int32)
        of_line = np.repeat(lines, [len(of_one) for of_one in heads])
        return self._decoded(at, np.concatenate([_NO_HEADS, *heads]), of_line, metadata)[0]

    def _swept(self, at: PlaneAt, swept: SweptEvents, metadata: Metadata) -> Events:
        """Complete the events that kernels read."""
        events = swept.events
        metadata.resolve_texts(events.labels, swept.texts)
        self._health.events_read += len(events) + sum(swept.left_out)
        _count_left_out(self._health, 0, *swept.left_out)
        return self._insert_odd(at, swept, metadata) if len(swept.odd) else events

    def _insert_odd(self, at: PlaneAt, swept: SweptEvents, metadata: Metadata) -> Events:
        """Insert the events that kernels could not read, in the order of the file."""
        odd, kept = self._decoded(at, swept.odd, swept.odd_line, metadata)
        place = np.concatenate([2 * np.arange(len(swept.events)) + 1, 2 * swept.odd_row[kept]])
        every = joined([swept.events, odd])
        every.reorder(np.argsort(place, kind="stable"))
        return every

    def _decoded(
        self, at: PlaneAt, heads: Ints, line: Rows, metadata: Metadata
    ) -> tuple[Events, NDArray[np.bool_]]:
        """Decode events; those with a name and a usable time, and a mask of them.

        Args:
            at: The plane.
            heads: Offsets of the events; (events,).
            line: Their lines; (events,).
            metadata: What they refer to.
        """
        base_ns = np.array([ln.time_ns for ln in at.lines], dtype=np.int64)
        collector = Collector(len(heads))
        kept = [np.empty(0, dtype=np.bool_)]
        for chunk in chunks(len(heads)):
            kept.append(self._collect(collector, base_ns, heads[chunk], line[chunk], metadata))
            let_go(self._data, int(heads[chunk][0]), int(heads[chunk][-1]))
        return collector.finish(), np.concatenate(kept)

    def _collect(
        self, collector: Collector, base_ns: Ints, heads: Ints, line: Rows, metadata: Metadata
    ) -> NDArray[np.bool_]:
        """Run `_decoded` for a chunk of events; `base_ns` is the start of every line, (lines,)."""
        scanned = scan_events(Wire(self._data), heads, metadata.stat_ids)
        base_ns = base_ns[line]
        ids, offset_ps, duration_ps, occurrences = scanned.columns
        start_ns = base_ns + offset_ps // 1000
        # Sums that overflow are negative, and so unusable.
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
        collector.add(labels, start_ns, dur_ns)
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
    """Merge planes with the same name, because the profiler divides large planes."""
    by_name: dict[str, list[Plane]] = {}
    for plane in planes:
        by_name.setdefault(plane.name, []).append(plane)
    return [merge(name, parts) for name, parts in by_name.items()]


def merge(name: str, planes: list[Plane]) -> Plane:
    """Merge planes, and their lines with the same id.

    Args:
        name: Name of the result.
        planes: The planes; the first one that names a line gives it its name.
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
    """Position of a line among the merged ones, added if it is new; keyed by id, else by name."""
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
