"""The events of a plane as columns, read by compiled functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import numpy as np

from stepwhy.base.columns import compiled
from stepwhy.base.columns.kernels.tables import Texts
from stepwhy.read.formats.xplane.collect import Collector
from stepwhy.read.formats.xplane.events import Labels
from stepwhy.read.formats.xplane.kernels.layout import (
    DONE,
    FULL,
    Columns,
    Lookups,
    Shared,
    Wire,
    new_state,
)
from stepwhy.read.formats.xplane.layout import Run
from stepwhy.read.inputs.source import let_go

if TYPE_CHECKING:
    import mmap
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from stepwhy.base.columns.types import AnyInts
    from stepwhy.read.formats.xplane.events import Events
    from stepwhy.read.formats.xplane.kernels.layout import IdTable
    from stepwhy.read.formats.xplane.layout import LineAt


LARGE: Final = 18 << 20
"""Bytes; smaller files are read in less time than loading the compiled scanner takes.

Measured as CPU time of `stepwhy explain`: with it 0.03 s more at 15 MB, 0.08 s less at 23 MB.
"""

# Bytes mapped at a time; the columns of their events fit into a processor's cache.
_CHUNK = 1 << 21
# A file with more events in unknown forms is read without kernels.
_ODD_EVENTS = 1 << 12
# Ids of statistics index a table of bytes; larger ones do not occur.
_LARGEST_STAT = 1 << 16
_MOST_STATS = 62  # a bit each


class Request(msgspec.Struct, frozen=True):
    """What to read from the events of a plane, and the tables that they refer to.

    Args:
        stats: Ids of the statistics to read, ascending.
        stat_names: Their names.
        entries: Maps metadata ids to rows of entries, -1 if missing.
        names: Code of the name of every entry; (entries,).
        references: Maps references of statistics to codes of texts.
        shared: Numbers and codes of texts of every entry, by position in `stats`; (entries,) each.
    """

    stats: AnyInts
    stat_names: tuple[str, ...]
    entries: IdTable
    names: NDArray[np.int32]
    references: IdTable
    shared: Mapping[int, tuple[NDArray[np.int64], NDArray[np.int32]]]


class SweptEvents(NamedTuple):
    """The events of a plane, read by kernels.

    Args:
        events: The events; code -1 - n of a text refers to the n-th of `texts`.
        texts: Texts that are stored inside events.
        left_out: Number of events without a name, of sums over many events, and of events without
            a usable time.
        odd: Offsets of events that kernels cannot read, ascending; (odd,).
        odd_line: Their lines; (odd,).
        odd_row: Rows of `events` before which they belong; (odd,).
    """

    events: Events
    texts: list[bytes]
    left_out: tuple[int, ...]
    odd: AnyInts
    odd_line: AnyInts
    odd_row: AnyInts


class Sweeper:
    """Reads one file; use `of`, which returns None until the scanner is compiled.

    Args:
        data: The file.
        kernels: The module of compiled functions.
    """

    def __init__(self, data: bytes | mmap.mmap, kernels: Any) -> None:
        self._data = data
        self._wire = Wire.of(data)
        self._kernels = kernels

    @classmethod
    def of(cls, data: bytes | mmap.mmap) -> Sweeper | None:
        """A sweeper for a file, None if kernels would be slower or are not compiled yet."""
        if len(data) < LARGE:
            return None
        kernels = compiled.load("stepwhy.read.formats.xplane.kernels.events")
        return cls(data, kernels) if kernels else None

    def walk(self, at: int, limit: int, tag: int) -> list[Run]:
        """Consecutive fields with a tag, in chunks; see `Walk`."""
        runs: list[Run] = []
        while True:
            for goal in (min(at + _CHUNK, limit), limit):
                count, after = self._kernels.walk_fields(self._wire, at, goal, tag)
                if count or goal == limit:
                    break  # else the event is longer than a chunk
            if not count:
                return runs
            runs.append(Run(at, after, count))
            let_go(self._data, at, after)
            at = after

    def read(self, lines: Sequence[LineAt], request: Request) -> SweptEvents | None:
        """Read the events of lines; None if too many are in a form that profilers do not write.

        Args:
            lines: Lines with runs from `walk`.
            request: What to read.
        """
        stats = request.stats
        if len(stats) > _MOST_STATS or (stats < 0).any() or (stats >= _LARGEST_STAT).any():
            return None
        room = max((r.events for ln in lines for r in ln.runs), default=0)
        events = _Events(self._kernels.scan_events, self._wire, Texts(self._data), request, room)
        collector = Collector(sum(line.count for line in lines))
        for place, line in enumerate(lines):
            for run in line.runs:
                if not events.fill(run, line.time_ns):
                    return None
                events.note_odd(place, len(collector))
                events.move_to(collector, place)
                let_go(self._data, run.at, run.end)
        return events.result(collector.finish())


class _Events:
    """Columns that the scanner fills with the events of one run at a time.

    Args:
        scan: The compiled function `scan_events`.
        wire: The file.
        texts: Collects texts that are stored inside events.
        request: What to read.
        room: Maximum number of events of a run.
    """

    def __init__(self, scan: Any, wire: Wire, texts: Texts, request: Request, room: int) -> None:
        self._scan, self._wire, self._texts = scan, wire, texts
        self._stat_names, stats = request.stat_names, request.stats
        self._columns = Columns.empty(room, len(stats), _ODD_EVENTS)
        which = np.zeros(int(stats.max(initial=-1)) + 1, dtype=np.uint8)
        which[stats] = np.arange(len(stats)) + 1
        shared = Shared.of(request.shared, len(request.names))
        self._lookups = Lookups(which, request.entries, request.names, request.references, shared)
        self._state = new_state()
        self._odd_line: list[int] = []

    def fill(self, run: Run, base_ns: int) -> bool:
        """Read a run of a line that starts at `base_ns`; False if the scanner cannot read it."""
        state, columns = self._state, self._columns
        state["position"], state["row"], columns.room[0] = run.at, 0, run.events
        for codes, has_codes in zip(columns.codes, columns.has_codes, strict=True):
            if has_codes:
                codes[:] = 0
        columns.has_numbers[:] = columns.has_codes[:] = False
        while True:
            tables = columns, self._lookups, self._texts.arrays
            status = self._scan(self._wire, run.end, base_ns, state, *tables)
            if status != FULL:
                return bool(status == DONE)
            self._texts.make_room()

    def note_odd(self, line: int, before: int) -> None:
        """Note line and row of the events of the run that the scanner cannot read.

        Args:
            line: The line of the run.
            before: Number of events read before the run.
        """
        since, count = len(self._odd_line), int(self._state["odd"][0])
        self._columns.odd[since:count, 1] += before
        self._odd_line += [line] * (count - since)

    def move_to(self, collector: Collector, line: int) -> None:
        """Add the events of the run, which belongs to a line, to a collector."""
        columns, names = self._columns, self._stat_names
        rows = slice(int(self._state["row"][0]))
        name = columns.name[rows]
        labels = Labels(
            np.broadcast_to(np.int32(line), len(name)),
            name,
            {names[n]: columns.numbers[n, rows] for n in np.flatnonzero(columns.has_numbers)},
            {names[n]: columns.codes[n, rows] for n in np.flatnonzero(columns.has_codes)},
        )
        collector.add(labels, columns.start_ns[rows], columns.dur_ns[rows])

    def result(self, events: Events) -> SweptEvents:
        """The collected events, with what was noted about all runs."""
        state = self._state[0]
        odd = self._columns.odd[: int(state["odd"])]
        return SweptEvents(
            events,
            [self._texts[number] for number in range(len(self._texts))],
            tuple(int(state[name]) for name in ("unnamed", "summed", "untimed")),
            odd[:, 0],
            np.array(self._odd_line, dtype=np.int32),
            odd[:, 1],
        )
