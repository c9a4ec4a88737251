"""The events of a plane as columns, decoded with NumPy, a chunk at a time.

An event consists of a few fields in any order. All events of a chunk advance together: each round
decodes the next field of every event that has one, so there are as many rounds as the longest event
has fields. Events that the rounds cannot decode are left to protobuf, one at a time.

Source: tsl/profiler/protobuf/xplane.proto.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from stepwhy.read.formats.xplane.kernels.layout import MISSING
from stepwhy.read.formats.xplane.layout import as_int64, parts
from stepwhy.read.formats.xplane.varints import REACH
from stepwhy.read.shared.tensorflow.messages import parse_message

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.base.columns.types import Ints
    from stepwhy.read.formats.xplane.layout import Bytes
    from stepwhy.read.formats.xplane.varints import Wire


# Column of an event by the tag of its field; the last code is that of statistics.
_FIELDS = {0x08: 0, 0x10: 1, 0x18: 2, 0x28: 3, 0x22: 4}
_METADATA, _OFFSET, _DURATION, _OCCURRENCES, _STAT = range(5)
_CODES = np.full(256, -1, dtype=np.int8)
_CODES[list(_FIELDS)] = list(_FIELDS.values())
_STAT_ID_TAG = 0x08
UINT, INT, TEXT, REFERENCE = 0x18, 0x20, 0x2A, 0x38
"""Tags of the values of statistics that are read."""

# Kind of a statistic's value, by its tag; doubles, bytes and compressed texts are not used.
_IS_UNKNOWN, _IS_NUMBER, _IS_TEXT, _IS_UNUSED = range(4)
_KINDS = np.full(256, _IS_UNKNOWN, dtype=np.int8)
_KINDS[[UINT, INT, REFERENCE]] = _IS_NUMBER
_KINDS[TEXT] = _IS_TEXT
_KINDS[[0x11, 0x32, 0x42]] = _IS_UNUSED


class Stats(NamedTuple):
    """Statistics of events, in the order of the file within each event; (stats,) each.

    The columns are narrow, because there are several times as many statistics as events.

    Args:
        row: Row of the event, int32.
        which: Position among the statistics to read, int16.
        tag: `UINT`, `INT`, `TEXT` or `REFERENCE`, uint8.
        value: The number, or the offset of the text, int64.
        size: Bytes of the text, int32.
    """

    row: NDArray[Any]
    which: NDArray[Any]
    tag: NDArray[Any]
    value: NDArray[Any]
    size: NDArray[Any]


class Scanned(NamedTuple):
    """Events as recorded; times in picoseconds from the start of their line.

    Args:
        columns: Metadata id, offset, duration and number of occurrences; (4, events).
        damaged: Whether the event cannot be read at all; (events,).
        stats: The statistics to read.
    """

    columns: Ints
    damaged: NDArray[np.bool_]
    stats: Stats


def scan_events(wire: Wire, heads: Ints, stat_ids: Ints) -> Scanned:
    """Decode a chunk of events.

    Args:
        wire: The bytes.
        heads: Offset of every event's field, which must be complete; (events,).
        stat_ids: Ids of the statistics to read, ascending.
    """
    columns = np.zeros((4, len(heads)), dtype=np.int64)
    damaged = np.zeros(len(heads), dtype=np.bool_)
    stats, odd = _Rounds(wire, columns, heads, stat_ids).run()
    for row in odd.tolist():
        parsed = _parse_event(wire.data, int(heads[row]), columns[:, row], stat_ids)
        damaged[row] = parsed is None
        if parsed is not None:
            stats.append(parsed._replace(row=parsed.row + np.int32(row)))
    return Scanned(columns, damaged, _joined(stats))


class _Open(NamedTuple):
    """Events with fields left to decode; (open,) each.

    Args:
        row: Row of the event.
        at: Offset of its next field.
        end: End of the event.
    """

    row: Ints
    at: Ints
    end: Ints

    def where(self, mask: NDArray[np.bool_]) -> _Open:
        """Select events by mask."""
        return self if mask.all() else _Open(*(column[mask] for column in self))


class _Rounds:
    """Decodes events in rounds, one field of every event per round.

    Args:
        wire: The bytes.
        columns: Receives the fields; (4, events).
        heads: Offset of every event's field; (events,).
        stat_ids: Ids of the statistics to read, ascending.
    """

    def __init__(self, wire: Wire, columns: Ints, heads: Ints, stat_ids: Ints) -> None:
        self._wire = wire
        self._columns = columns
        # The search needs at least one id; no statistic has this one.
        self._stat_ids = stat_ids if len(stat_ids) else np.array([MISSING])
        # Events too close to the end of the data are left to protobuf.
        near = heads > len(wire.data) - 2 * REACH
        sizes, lengths = wire.varints(np.where(near, 0, heads + 1))
        at = heads + 1 + lengths
        self._odd = near | (at + sizes > len(wire.data) - REACH)
        every = _Open(np.arange(len(heads)), at, at + sizes)
        self._open = every.where(~self._odd & (sizes > 0))

    def run(self) -> tuple[list[Stats], Ints]:
        """The statistics to read, and the rows that protobuf has to decode."""
        found = []
        while len(self._open.row):
            stats = self._round(self._open)
            if len(stats.row):
                found.append(self._stats(*stats))
        if self._odd.any():
            found = [selected(stats, ~self._odd[stats.row]) for stats in found]
        return found, np.flatnonzero(self._odd)

    def _round(self, events: _Open) -> _Open:
        """Decode the next field of every event; returns the statistics among the fields."""
        codes = _CODES[self._wire.octets[events.at]]
        values, sizes = self._wire.varints(events.at + 1)
        after = events.at + 1 + sizes
        is_stat = codes == _STAT
        # Compared rather than added, because a wrong length could overflow.
        room = events.end - after
        good = (codes >= 0) & (sizes > 0) & (room >= 0)
        good &= ~is_stat | ((values >= 0) & (values <= room))
        if not good.all():
            self._odd[events.row[~good]] = True
            events = events.where(good)
            codes, is_stat = codes[good], is_stat[good]
            values, after = values[good], after[good]
        self._keep(events.row, codes, values)
        if not is_stat.any():
            stats = _Open(*(column[:0] for column in events))
        else:
            after_stat = after + np.where(is_stat, values, 0)
            stats = _Open(events.row, after, after_stat).where(is_stat)
            after = after_stat
        self._open = events._replace(at=after).where(after < events.end)
        return stats

    def _keep(self, rows: Ints, codes: NDArray[np.int8], values: Ints) -> None:
        """Write decoded fields to their columns."""
        for code, column in enumerate(self._columns):
            mask = codes == code
            if mask.all():
                column[rows if len(rows) < len(column) else slice(None)] = values
                return
            if mask.any():
                column[rows[mask]] = values[mask]

    def _stats(self, rows: Ints, at: Ints, ends: Ints) -> Stats:
        """The statistics to read; marks events with statistics in an unexpected form as odd."""
        ids, sizes = self._wire.varints(at + 1)
        value_at = at + 1 + sizes
        odd = (self._wire.octets[at] != _STAT_ID_TAG) | (sizes <= 0) | (value_at > ends)
        if odd.any():
            self._odd[rows[odd]] = True
        place = np.minimum(np.searchsorted(self._stat_ids, ids), len(self._stat_ids) - 1)
        used = np.flatnonzero((self._stat_ids[place] == ids) & ~odd & (value_at < ends))
        return self._values(rows[used], place[used], value_at[used], ends[used])

    def _values(self, rows: Ints, which: Ints, at: Ints, ends: Ints) -> Stats:
        tags = self._wire.octets[at]
        values, sizes = self._wire.varints(at + 1)
        after = at + 1 + sizes
        kinds = _KINDS[tags]
        is_text = kinds == _IS_TEXT
        good = (sizes > 0) & np.where(is_text, values == ends - after, after == ends)
        good &= kinds != _IS_UNKNOWN
        unused = kinds == _IS_UNUSED
        if not (good | unused).all():
            self._odd[rows[~(good | unused)]] = True
        sizes = np.where(is_text, values, 0)
        values = np.where(is_text, after, values)
        stats = _stats(rows, which, tags, values, sizes)
        return selected(stats, ~unused) if unused.any() else stats


def _parse_event(data: Bytes, head: int, column: Ints, stat_ids: Ints) -> Stats | None:
    """Decode an event with protobuf, in any form; None if it is damaged.

    Args:
        data: The bytes.
        head: Offset of the event's field.
        column: Receives its fields; (4,).
        stat_ids: Ids of the statistics to read.
    """
    part = next(parts(data, head, len(data)))
    event = parse_message("XEvent", data[part.value : part.end])
    if event is None:
        return None
    column[:] = event.metadata_id, event.offset_ps, event.duration_ps, event.num_occurrences
    places = {key: place for place, key in enumerate(stat_ids.tolist())}
    stats = [s for s in event.stats if s.metadata_id in places]
    found = [(0, places[s.metadata_id], *_value(s, data, part.value)) for s in stats]
    return _stats(*np.array(found, dtype=np.int64).reshape(-1, 5).T)


def _value(stat: Any, data: Bytes, start: int) -> tuple[int, int, int]:
    """Tag, value and size of a statistic."""
    if stat.str_value:
        at = data.find(stat.str_value, start)
        return TEXT, at, len(stat.str_value)
    if stat.ref_value:
        return REFERENCE, as_int64(stat.ref_value), 0
    return INT, stat.int64_value or as_int64(stat.uint64_value), 0


def selected(stats: Stats, where: Ints | NDArray[np.bool_]) -> Stats:
    """Select statistics by row or by mask."""
    return Stats(*(column[where] for column in stats))


def _joined(parts: list[Stats]) -> Stats:
    """Concatenate statistics; empties the list, to free each column as soon as it is copied."""
    columns = [list(column) for column in zip(_NONE, *parts, strict=True)]
    parts.clear()
    joined = []
    for column in columns:
        joined.append(np.concatenate(column))
        column.clear()
    return Stats(*joined)


def _stats(row: Ints, which: Ints, tag: NDArray[Any], value: Ints, size: Ints) -> Stats:
    return Stats(
        row.astype(np.int32),
        which.astype(np.int16),
        tag.astype(np.uint8),
        value.astype(np.int64),
        size.astype(np.int32),
    )


_NONE = _stats(*(np.empty(0, dtype=np.int64) for _ in range(5)))
