"""From the ranges of a Chrome trace to slices on tracks."""

from __future__ import annotations

import heapq
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from stepwhy.columns.chunks import take
from stepwhy.columns.growing import Growing
from stepwhy.columns.strings import texts_at
from stepwhy.importers.formats.chrome_trace.names import (
    Meaning,
    is_api_call,
    loop_name,
    on_device,
    on_host,
)
from stepwhy.importers.formats.chrome_trace.uses import LONGEST
from stepwhy.importers.shared.nvtx import find_steps, may_be_step, without_homes
from stepwhy.trace import NULL, Kind

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping

    from numpy.typing import NDArray

    from stepwhy.importers.formats.chrome_trace.rows import Row
    from stepwhy.importers.formats.chrome_trace.tracks import Tracks
    from stepwhy.importers.formats.chrome_trace.used_names import Use, Uses
    from stepwhy.importers.shared.chrome_json import Place, Table
    from stepwhy.importers.shared.chrome_spans import Spans, Times
    from stepwhy.trace import TraceBuilder

_OTHERS: Final = {
    "track": np.int32,
    "source": np.int32,
    "copy": np.int8,
    "phase": np.int8,
    "kind": np.int8,
}
# Ranges that are Python's objects at a time.
_CHUNK = 1 << 14


class _Kinds(NamedTuple):
    """What ranges are; (ranges,) each."""

    on_device: NDArray[np.bool_]
    repeats: NDArray[np.bool_]


def add_slices(
    builder: TraceBuilder, tracks: Tracks, times: Times, uses: Uses, rows: Mapping[Place, Row]
) -> set[Kind]:
    """Append the ranges on threads and streams.

    Args:
        builder: The trace to append to.
        tracks: Its tracks.
        times: The ranges.
        uses: Their names.
        rows: The row of every process and thread.

    Returns:
        What the names on host threads stand for.
    """
    # Devices in their own order, not in that of the file.
    for row in sorted(dict.fromkeys(rows.values()), key=lambda r: (len(r.device), r.device)):
        tracks.of(row)
    if not len(times):
        return set()
    steps = _steps(times, uses, rows)
    looks = _looks(builder, tracks, uses, rows)
    uses.forget_names()
    columns = {"name": take(looks.name, uses.of)}
    del looks.name
    columns |= {name: looks.column(name, uses.of) for name in _OTHERS}
    columns["kind"] = columns["kind"].copy()
    del looks
    on_device, repeats = _kinds(uses, rows)
    on_hosts = np.unique(columns["kind"][~on_device])
    columns["kind"][steps] = Kind.STEP
    named = on_device & (repeats | _around_others(times, uses, on_device))
    columns["kind"][named] = Kind.DEVICE_ANNOTATION
    builder.slices_from({**columns, "start_ns": times.start_ns, "dur_ns": times.dur_ns})
    return set(map(Kind, on_hosts.tolist()))


def _kinds(uses: Uses, rows: Mapping[Place, Row]) -> _Kinds:
    """Which ranges lie on rows of devices, and which on rows that repeat others."""
    of_known = [rows[use.place] for use in uses.known]
    on_device = np.asarray([bool(row.device) for row in of_known], dtype=bool)
    repeats = np.asarray([row.repeats for row in of_known], dtype=bool)
    return _Kinds(*(take(take(c, uses.like), uses.of) for c in (on_device, repeats)))


class _Looks:
    """What ranges of one name on one row have in common, by its number.

    Args:
        uses: The names on rows; those that stand for others have to be added first.
    """

    def __init__(self, uses: Uses) -> None:
        self.name = uses.label
        """Its string, in the place of its number, which nobody needs afterwards."""
        self.other = uses.like
        """Number of all but the name, which most have in common with others."""
        self._others = {column: Growing(dtype) for column, dtype in _OTHERS.items()}

    def column(self, column: str, of: NDArray[np.int32]) -> NDArray[Any]:
        """A column of slices other than the name, by their numbers; (slices,)."""
        values = self._others[column].values()
        if (values == values[0]).all():  # takes no memory
            return np.broadcast_to(values[0], len(of))
        return take(take(values, self.other), of)

    def add(self, track: int, source: int, meaning: Meaning) -> int:
        """The number of all but a name."""
        number = len(self._others["track"])
        values = (track, source, int(meaning.copy), int(meaning.phase), int(meaning.kind))
        for column, value in zip(self._others.values(), values, strict=True):
            column.append(np.asarray([value]))
        return number


def _looks(builder: TraceBuilder, tracks: Tracks, uses: Uses, rows: Mapping[Place, Row]) -> _Looks:
    looks, is_plain = _Looks(uses), np.zeros(len(uses.known), dtype=bool)
    for number, use in enumerate(uses.known):
        said = _meaning(use.name, use, rows)
        looks.add(tracks.of(rows[use.place]), NULL, said)
        is_plain[number] = _is_plain(use.name, said)
    if not is_plain.all():
        looks.other = uses.like.astype(np.int32)
    for some, names in uses.chunks():
        likes = uses.like[some]
        if uses.unread:
            names = list(map(without_homes, names))  # noqa: PLW2901
        if is_plain[likes].all():
            looks.name[some] = builder.intern_all(names)
            continue
        for number, name, like in zip(some.tolist(), names, likes.tolist(), strict=True):
            if not is_plain[like]:
                use = uses.known[like]
                said, track = _meaning(name, use, rows), tracks.of(rows[use.place])
                looks.other[number] = looks.add(track, _source(builder, said), said)
                name = said.name  # noqa: PLW2901
            looks.name[number] = builder.intern(name)
    return looks


def _source(builder: TraceBuilder, meaning: Meaning) -> int:
    return builder.intern(meaning.source) if meaning.source else NULL


def _meaning(name: str, like: Use, rows: Mapping[Place, Row]) -> Meaning:
    """What a name says where another one is used."""
    return on_device(name) if rows[like.place].device else on_host(name, like.category)


def _is_plain(name: str, said: Meaning) -> bool:
    """Whether a name says no more than others that differ in nothing but long numbers."""
    is_whole = said.name == name and not said.source and len(name) <= LONGEST
    return is_whole and not is_api_call(name)


def add_async(builder: TraceBuilder, tracks: Tracks, table: Table, spans: Spans) -> None:
    """Append the ranges that lie on no thread: per process and category on as few lanes as fit.

    Args:
        builder: The trace to append to.
        tracks: Its tracks.
        table: The records of the ranges.
        spans: The ranges.
    """
    lanes = _Lanes(tracks, table)
    shown = np.full(len(table.names), NULL, dtype=np.int32)
    for rows in _chunks(spans.outermost_first()):
        start_ns, dur_ns = spans.start_ns[rows], spans.dur_ns[rows]
        uses = table.use[spans.first[rows]]
        names, contexts = table.name_of_use[uses], table.context_of_use[uses].tolist()
        texts, times = texts_at(table.names, names), (start_ns, start_ns + dur_ns)
        track = []
        for name, text, *where in zip(
            names.tolist(), texts, contexts, *(t.tolist() for t in times), strict=True
        ):
            track.append(lanes.track(*where))
            if shown[name] == NULL:
                shown[name] = builder.intern(without_homes(text))
        builder.slices_from(
            {
                "track": track,
                "kind": np.broadcast_to(np.int8(Kind.ANNOTATION), len(rows)),
                "name": shown[names],
                "start_ns": start_ns,
                "dur_ns": dur_ns,
            }
        )


class _Lanes:
    """Lanes of ranges that lie on no thread: they do not overlap on one.

    Args:
        tracks: Takes the lanes.
        table: Knows the processes and categories of ranges.
    """

    def __init__(self, tracks: Tracks, table: Table) -> None:
        self._tracks = tracks
        self._contexts = [
            (table.places[place][0], table.categories[category])
            for place, category in table.contexts.tolist()
        ]
        # Per process and category when each lane is free again.
        self._free: dict[tuple[Hashable, str], list[tuple[int, int]]] = defaultdict(list)
        self._known: dict[tuple[Hashable, str, int], int] = {}

    def track(self, context: int, start_ns: int, end_ns: int) -> int:
        """Track of a range, which begins behind all before it; in as few lanes as fit."""
        of = self._contexts[context]
        lanes = self._free[of]
        reused = bool(lanes) and lanes[0][0] <= start_ns
        lane = heapq.heappop(lanes)[1] if reused else len(lanes)
        heapq.heappush(lanes, (end_ns, lane))
        if (*of, lane) not in self._known:
            self._known[*of, lane] = self._tracks.lane(*of, lane)
        return self._known[*of, lane]


def _chunks(rows: NDArray[np.int32]) -> Iterator[NDArray[np.int32]]:
    for begin in range(0, len(rows), _CHUNK):
        yield rows[begin : begin + _CHUNK]


def _steps(times: Times, uses: Uses, rows: Mapping[Place, Row]) -> NDArray[np.int64]:
    """Which ranges are steps, by their names."""
    said = [not rows[u.place].device and may_be_step(loop_name(u.name)) for u in uses.known]
    may_be = take(np.asarray(said, dtype=bool), uses.like)
    chosen = np.flatnonzero(take(may_be, uses.of))
    numbers = uses.of[chosen]
    names = [loop_name(uses.name(n)) for n in numbers.tolist()]
    threads = uses.places(chosen).astype(np.int64)
    start_ns = times.start_ns[chosen]
    end_ns = start_ns + times.dur_ns[chosen]
    found: NDArray[np.int64] = chosen[find_steps(names, threads, start_ns, end_ns)]
    return found


def _around_others(times: Times, uses: Uses, on_device: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which ranges of device rows enclose others: what runs on a device does not nest; (ranges,).

    The enclosing range is a name for the work inside, and that alone is device time.
    """
    around = np.zeros(len(times), dtype=bool)
    rows = np.flatnonzero(on_device & (times.dur_ns > 0))
    place = uses.places(rows)
    order = np.lexsort((-times.dur_ns[rows], times.start_ns[rows], place))
    rows, place = rows[order], place[order]
    end_ns = times.start_ns[rows] + times.dur_ns[rows]
    around[rows[:-1]] = (place[1:] == place[:-1]) & (end_ns[1:] <= end_ns[:-1])
    return around


__all__ = ["add_async", "add_slices"]
