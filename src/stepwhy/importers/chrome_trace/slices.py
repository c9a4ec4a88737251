"""From the ranges of a Chrome trace to slices on tracks."""

from __future__ import annotations

import heapq
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from stepwhy.importers.chrome_trace.names import Meaning, is_api_call, loop_name, on_device, on_host
from stepwhy.importers.chrome_trace.uses import LONGEST
from stepwhy.importers.nvtx import find_steps, is_step_name, without_homes
from stepwhy.trace import NULL, Kind
from stepwhy.trace.order import taken

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping

    from numpy.typing import NDArray

    from stepwhy.importers.chrome_json import Place, Table
    from stepwhy.importers.chrome_spans import Spans
    from stepwhy.importers.chrome_trace.rows import Row
    from stepwhy.importers.chrome_trace.tracks import Tracks
    from stepwhy.importers.chrome_trace.uses import Use, Uses
    from stepwhy.trace import TraceBuilder

_LOOK = ("track", "name", "source", "copy", "phase", "kind")
_TYPES = (np.int32, np.int32, np.int32, np.int8, np.int8, np.int8)
# Ranges that are Python's objects at a time.
_CHUNK = 1 << 14


class _Kinds(NamedTuple):
    """What a name on a row is, by its number; (uses,) each."""

    on_device: NDArray[np.bool_]
    repeats: NDArray[np.bool_]


def add_slices(
    builder: TraceBuilder, tracks: Tracks, spans: Spans, uses: Uses, rows: Mapping[Place, Row]
) -> set[Kind]:
    """Append the ranges on threads and streams.

    Args:
        builder: The trace to append to.
        tracks: Its tracks.
        spans: The ranges.
        uses: Their names.
        rows: The row of every process and thread.

    Returns:
        What the names on host threads stand for.
    """
    # Devices in their own order, not in that of the file.
    for row in sorted(dict.fromkeys(rows.values()), key=lambda r: (len(r.device), r.device)):
        tracks.of(row)
    if not len(spans):
        return set()
    on_device, repeats = _kinds(uses, rows)
    of = uses.of
    looks = _looks(builder, tracks, uses, rows)
    on_hosts = looks["kind"][uses.shown][~on_device[uses.shown]]
    columns = {name: taken(looks.pop(name), of) for name in _LOOK}
    columns["kind"][_steps(spans, uses, rows)] = Kind.STEP
    named = on_device[of] & (repeats[of] | _around_others(spans, uses, on_device[of]))
    columns["kind"][named] = Kind.DEVICE_ANNOTATION
    builder.slices_from({**columns, "start_ns": spans.start_ns, "dur_ns": spans.dur_ns})
    return {Kind(kind) for kind in np.unique(on_hosts).tolist()}


def _kinds(uses: Uses, rows: Mapping[Place, Row]) -> _Kinds:
    """Which names lie on rows of devices, and which on rows that repeat others."""
    kinds = _Kinds(np.zeros(uses.count, dtype=bool), np.zeros(uses.count, dtype=bool))
    for number, use in uses.known.items():
        row = rows[use.place]
        kinds.on_device[number], kinds.repeats[number] = bool(row.device), row.repeats
    return _Kinds(*(taken(column, uses.like) for column in kinds))


def _looks(
    builder: TraceBuilder, tracks: Tracks, uses: Uses, rows: Mapping[Place, Row]
) -> dict[str, NDArray[Any]]:
    """What ranges of one name on one row have in common, by its number; (uses,) each."""
    looks = {n: np.zeros(uses.count, dtype=t) for n, t in zip(_LOOK, _TYPES, strict=True)}
    says = {number: _meaning(use.name, use, rows) for number, use in uses.known.items()}
    for number, use in uses.known.items():
        meaning = says[number]
        track = tracks.of(rows[use.place])
        for name, value in zip(_LOOK, _columns(track, NULL, NULL, meaning), strict=True):
            looks[name][number] = value
    for name in _LOOK:
        looks[name] = taken(looks[name], uses.like)
    # Of these, the name is all that differs.
    plain = {number for number, use in uses.known.items() if _is_plain(use.name, says[number])}
    for some, names in uses.chunks():
        for number, name, like in zip(some.tolist(), names, uses.like[some].tolist(), strict=True):
            if like in plain:
                looks["name"][number] = builder.intern(name)
            else:
                use = uses.known[like]
                look = _look(builder, tracks.of(rows[use.place]), _meaning(name, use, rows))
                for column, value in zip(_LOOK, look, strict=True):
                    looks[column][number] = value
    return looks


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
    # Per process and category when each lane is free again.
    free: dict[tuple[Hashable, str], list[tuple[int, int]]] = defaultdict(list)
    looks: dict[tuple[int, int], list[int]] = {}
    for rows in _chunks(spans.outermost_first()):
        start_ns, dur_ns = spans.start_ns[rows], spans.dur_ns[rows]
        uses = table.use[spans.first[rows]].tolist()
        found = []
        for use, start, end in zip(
            uses, start_ns.tolist(), (start_ns + dur_ns).tolist(), strict=True
        ):
            (process, _), (name, category) = table.place_of(use), table.title_of(use)
            lanes = free[process, category]
            reused = bool(lanes) and lanes[0][0] <= start
            lane = heapq.heappop(lanes)[1] if reused else len(lanes)
            heapq.heappush(lanes, (end, lane))
            if (use, lane) not in looks:
                meaning = Meaning(Kind.ANNOTATION, without_homes(name))
                looks[use, lane] = _look(builder, tracks.lane(process, category, lane), meaning)
            found.append(looks[use, lane])
        columns = dict(zip(_LOOK, np.asarray(found).T, strict=True))
        builder.slices_from({**columns, "start_ns": start_ns, "dur_ns": dur_ns})


def _chunks(rows: NDArray[np.int32]) -> Iterator[NDArray[np.int32]]:
    for begin in range(0, len(rows), _CHUNK):
        yield rows[begin : begin + _CHUNK]


def _look(builder: TraceBuilder, track: int, meaning: Meaning) -> list[int]:
    """What ranges of one name on one track have in common: the columns of `_LOOK`."""
    source = builder.intern(meaning.source) if meaning.source else NULL
    return _columns(track, builder.intern(meaning.name), source, meaning)


def _columns(track: int, name: int, source: int, meaning: Meaning) -> list[int]:
    return [track, name, source, int(meaning.copy), int(meaning.phase), int(meaning.kind)]


def _steps(spans: Spans, uses: Uses, rows: Mapping[Place, Row]) -> NDArray[np.int64]:
    """Which ranges are steps, by their names."""
    may_be = np.zeros(uses.count, dtype=bool)
    for number, use in uses.known.items():
        on_host = not rows[use.place].device
        may_be[number] = on_host and is_step_name(loop_name(use.name))
    may_be = taken(may_be, uses.like)
    chosen = np.flatnonzero(taken(may_be, uses.of))
    numbers = uses.of[chosen]
    names = [loop_name(uses.name(n)) for n in numbers.tolist()]
    threads = uses.place[numbers].astype(np.int64)
    start_ns = spans.start_ns[chosen]
    end_ns = start_ns + spans.dur_ns[chosen]
    found: NDArray[np.int64] = chosen[find_steps(names, threads, start_ns, end_ns)]
    return found


def _around_others(spans: Spans, uses: Uses, on_device: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which ranges of device rows enclose others: what runs on a device does not nest; (ranges,).

    The enclosing range is a name for the work inside, and that alone is device time.
    """
    around = np.zeros(len(spans), dtype=bool)
    rows = np.flatnonzero(on_device & (spans.dur_ns > 0))
    place = uses.place[uses.of[rows]]
    order = np.lexsort((-spans.dur_ns[rows], spans.start_ns[rows], place))
    rows, place = rows[order], place[order]
    end_ns = spans.start_ns[rows] + spans.dur_ns[rows]
    around[rows[:-1]] = (place[1:] == place[:-1]) & (end_ns[1:] <= end_ns[:-1])
    return around


__all__ = ["add_async", "add_slices"]
