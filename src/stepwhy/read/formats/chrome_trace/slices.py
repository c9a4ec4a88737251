"""Adds the ranges of a Chrome trace as slices on tracks."""

from __future__ import annotations

import heapq
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from stepwhy.base.columns.chunks import chunks, take
from stepwhy.base.columns.growing import Growing
from stepwhy.base.columns.strings import texts_at
from stepwhy.read.formats.chrome_trace.names import (
    Meaning,
    is_api_call,
    loop_name,
    on_device,
    on_host,
)
from stepwhy.read.formats.chrome_trace.uses import LONGEST
from stepwhy.read.shared.nvtx import find_steps, may_be_step, without_homes
from stepwhy.trace import NULL, Kind

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from numpy.typing import NDArray

    from stepwhy.read.formats.chrome_trace.rows import Row
    from stepwhy.read.formats.chrome_trace.tracks import Tracks
    from stepwhy.read.formats.chrome_trace.used_names import Use, Uses
    from stepwhy.read.shared.chrome_json import Place, Table
    from stepwhy.read.shared.chrome_spans import Spans, Times
    from stepwhy.trace import TraceBuilder

_OTHERS: Final = {
    "track": np.int32,
    "source": np.int32,
    "copy": np.int8,
    "phase": np.int8,
    "kind": np.int8,
}


class _Kinds(NamedTuple):
    """Whether ranges are on devices, and whether their rows repeat others; (ranges,) each."""

    on_device: NDArray[np.bool_]
    repeats: NDArray[np.bool_]


def add_slices(
    builder: TraceBuilder, tracks: Tracks, times: Times, uses: Uses, rows: Mapping[Place, Row]
) -> set[Kind]:
    """Add the ranges on threads and streams.

    Args:
        builder: Receives the slices.
        tracks: Tracks of the trace.
        times: The ranges.
        uses: Their names.
        rows: The row of every process and thread.

    Returns:
        The kinds of ranges on host threads.
    """
    # Devices are numbered by their names, whatever their order in the file.
    for row in sorted(dict.fromkeys(rows.values()), key=lambda r: (len(r.device), r.device)):
        tracks.of(row)
    if not len(times):
        return set()
    steps = _steps(times, uses, rows)
    templates = _templates(builder, tracks, uses, rows)
    uses.forget_names()
    columns = {"name": take(templates.name, uses.of)}
    del templates.name
    columns |= {name: templates.column(name, uses.of) for name in _OTHERS}
    columns["kind"] = columns["kind"].copy()
    del templates
    on_device, repeats = _kinds(uses, rows)
    on_hosts = np.unique(columns["kind"][~on_device])
    columns["kind"][steps] = Kind.STEP
    named = on_device & (repeats | _enclosing(times, uses, on_device))
    columns["kind"][named] = Kind.DEVICE_ANNOTATION
    builder.slices_from({**columns, "start_ns": times.start_ns, "dur_ns": times.dur_ns})
    return set(map(Kind, on_hosts.tolist()))


def _kinds(uses: Uses, rows: Mapping[Place, Row]) -> _Kinds:
    """Find the ranges on rows of devices, and on rows that repeat others."""
    of_known = [rows[use.place] for use in uses.known]
    on_device = np.asarray([bool(row.device) for row in of_known], dtype=bool)
    repeats = np.asarray([row.repeats for row in of_known], dtype=bool)
    return _Kinds(*(take(take(c, uses.like), uses.of) for c in (on_device, repeats)))


class _Templates:
    """The columns that ranges of the same name and row share.

    Args:
        uses: Names on rows. Templates of `uses.known` have to be added first.
    """

    def __init__(self, uses: Uses) -> None:
        self.name = uses.label
        """String of each use; overwrites the index of its name, which is no longer needed."""
        self.other = uses.like
        """Template of each use, without the name; most uses share theirs."""
        self._others = {column: Growing(dtype) for column, dtype in _OTHERS.items()}

    def column(self, column: str, of: NDArray[np.int32]) -> NDArray[Any]:
        """A column other than the name, for the given uses; (slices,)."""
        values = self._others[column].values()
        if (values == values[0]).all():  # takes no memory
            return np.broadcast_to(values[0], len(of))
        return take(take(values, self.other), of)

    def add(self, track: int, source: int, meaning: Meaning) -> int:
        """Add a template; returns its number."""
        number = len(self._others["track"])
        values = (track, source, int(meaning.copy), int(meaning.phase), int(meaning.kind))
        for column, value in zip(self._others.values(), values, strict=True):
            column.append(np.asarray([value]))
        return number


def _templates(
    builder: TraceBuilder, tracks: Tracks, uses: Uses, rows: Mapping[Place, Row]
) -> _Templates:
    templates, is_plain = _Templates(uses), np.zeros(len(uses.known), dtype=bool)
    for number, use in enumerate(uses.known):
        meaning = _meaning(use.name, use, rows)
        templates.add(tracks.of(rows[use.place]), NULL, meaning)
        is_plain[number] = _is_plain(use.name, meaning)
    if not is_plain.all():
        templates.other = uses.like.astype(np.int32)
    for some, names in uses.chunks():
        likes = uses.like[some]
        if uses.unread:
            names = list(map(without_homes, names))  # noqa: PLW2901
        if is_plain[likes].all():
            templates.name[some] = builder.intern_all(names)
            continue
        for number, name, like in zip(some.tolist(), names, likes.tolist(), strict=True):
            if not is_plain[like]:
                use = uses.known[like]
                meaning, track = _meaning(name, use, rows), tracks.of(rows[use.place])
                source = builder.intern(meaning.source) if meaning.source else NULL
                templates.other[number] = templates.add(track, source, meaning)
                name = meaning.name  # noqa: PLW2901
            templates.name[number] = builder.intern(name)
    return templates


def _meaning(name: str, like: Use, rows: Mapping[Place, Row]) -> Meaning:
    """Meaning of a name that is used on the row of another one."""
    return on_device(name) if rows[like.place].device else on_host(name, like.category)


def _is_plain(name: str, meaning: Meaning) -> bool:
    """Whether names that differ only in long numbers have the same meaning."""
    is_whole = meaning.name == name and not meaning.source and len(name) <= LONGEST
    return is_whole and not is_api_call(name)


def add_async(builder: TraceBuilder, tracks: Tracks, table: Table, spans: Spans) -> None:
    """Add the ranges that are on no thread, to as few lanes per process and category as possible.

    Args:
        builder: Receives the slices.
        tracks: Tracks of the trace.
        table: The records of the ranges.
        spans: The ranges.
    """
    lanes = _Lanes(tracks, table)
    shown = np.full(len(table.names), NULL, dtype=np.int32)
    order = spans.outermost_first()
    for rows in (order[chunk] for chunk in chunks(len(order))):
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
    """Lanes of ranges that are on no thread; the ranges of a lane do not overlap.

    Args:
        tracks: Receives the lanes.
        table: Has the processes and categories of the ranges.
    """

    def __init__(self, tracks: Tracks, table: Table) -> None:
        self._tracks = tracks
        self._contexts = [
            (table.places[place][0], table.categories[category])
            for place, category in table.contexts.tolist()
        ]
        # By process and category: when each lane is free again.
        self._free: dict[tuple[Hashable, str], list[tuple[int, int]]] = defaultdict(list)
        self._known: dict[tuple[Hashable, str, int], int] = {}

    def track(self, context: int, start_ns: int, end_ns: int) -> int:
        """Track of a range; calls must be in the order of starts."""
        owner = self._contexts[context]
        lanes = self._free[owner]
        reused = bool(lanes) and lanes[0][0] <= start_ns
        lane = heapq.heappop(lanes)[1] if reused else len(lanes)
        heapq.heappush(lanes, (end_ns, lane))
        if (*owner, lane) not in self._known:
            self._known[*owner, lane] = self._tracks.lane(*owner, lane)
        return self._known[*owner, lane]


def _steps(times: Times, uses: Uses, rows: Mapping[Place, Row]) -> NDArray[np.int64]:
    """The ranges that are steps, by their names."""
    candidates = [not rows[u.place].device and may_be_step(loop_name(u.name)) for u in uses.known]
    may_be = take(np.asarray(candidates, dtype=bool), uses.like)
    chosen = np.flatnonzero(take(may_be, uses.of))
    numbers = uses.of[chosen]
    names = [loop_name(uses.name(n)) for n in numbers.tolist()]
    threads = uses.places(chosen).astype(np.int64)
    start_ns = times.start_ns[chosen]
    end_ns = start_ns + times.dur_ns[chosen]
    found: NDArray[np.int64] = chosen[find_steps(names, threads, start_ns, end_ns)]
    return found


def _enclosing(times: Times, uses: Uses, on_device: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Mask of the ranges of device rows that enclose others; (ranges,).

    Work on a device does not nest: only the inner ranges are device time, the outer one names them.
    """
    around = np.zeros(len(times), dtype=bool)
    rows = np.flatnonzero(on_device & (times.dur_ns > 0))
    place = uses.places(rows)
    order = np.lexsort((-times.dur_ns[rows], times.start_ns[rows], place))
    rows, place = rows[order], place[order]
    end_ns = times.start_ns[rows] + times.dur_ns[rows]
    around[rows[:-1]] = (place[1:] == place[:-1]) & (end_ns[1:] <= end_ns[:-1])
    return around
