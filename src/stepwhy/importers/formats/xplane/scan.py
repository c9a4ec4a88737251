"""The events of a plane as columns, decoded many at a time.

An event is a handful of fields in any order. All events advance together: each round decodes the
next field of every event that has one more, so that the number of rounds is that of the fields of
the longest event. What the rounds do not understand is left to protobuf, one event at a time.

Source: tsl/profiler/protobuf/xplane.proto.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from stepwhy.importers.formats.xplane.kernels.layout import MISSING
from stepwhy.importers.formats.xplane.layout import as_int64, parts
from stepwhy.importers.formats.xplane.varints import REACH
from stepwhy.importers.shared.tensorflow.messages import parse_message

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.importers.formats.xplane.layout import Bytes
    from stepwhy.importers.formats.xplane.varints import Wire

    Ints = NDArray[np.int64]

# Columns of an event by the tag of their field; statistics have the last code.
_FIELDS = {0x08: 0, 0x10: 1, 0x18: 2, 0x28: 3, 0x22: 4}
_METADATA, _OFFSET, _DURATION, _OCCURRENCES, _STAT = range(5)
_CODES = np.full(256, -1, dtype=np.int8)
_CODES[list(_FIELDS)] = list(_FIELDS.values())
_STAT_ID_TAG = 0x08
UINT, INT, TEXT, REFERENCE = 0x18, 0x20, 0x2A, 0x38
"""Tags of the values of statistics that are looked at."""

# What a statistic's value is, by its tag. Nothing asks for doubles, bytes and compressed text.
_IS_STRANGE, _IS_NUMBER, _IS_TEXT, _IS_UNSEEN = range(4)
_VALUES = np.full(256, _IS_STRANGE, dtype=np.int8)
_VALUES[[UINT, INT, REFERENCE]] = _IS_NUMBER
_VALUES[TEXT] = _IS_TEXT
_VALUES[[0x11, 0x32, 0x42]] = _IS_UNSEEN


class Stats(NamedTuple):
    """Statistics of events, in the order of the file within each event.

    There are several times as many as events: each column is as narrow as it can be.

    Args:
        row: Row of the event, int32.
        which: Which of the wanted statistics, int16.
        tag: `UINT`, `INT`, `TEXT` or `REFERENCE`, uint8.
        value: The number, or where the text begins, int64.
        size: Bytes of the text, int32.
    """

    row: NDArray[Any]
    which: NDArray[Any]
    tag: NDArray[Any]
    value: NDArray[Any]
    size: NDArray[Any]


class Scanned(NamedTuple):
    """Events as they stand in the file; times in picoseconds from the start of their line.

    Args:
        columns: Metadata id, offset, duration and number of occurrences, shape (4, events).
        damaged: Whether nothing of the event can be read.
        stats: Those that were asked for.
    """

    columns: Ints
    damaged: NDArray[np.bool_]
    stats: Stats


def scan_events(wire: Wire, heads: Ints, wanted: Ints) -> Scanned:
    """Decode a chunk of events.

    Args:
        wire: The bytes.
        heads: Where the field of every event begins; all of it lies in the data.
        wanted: Ids of the statistics to decode, ascending.
    """
    columns = np.zeros((4, len(heads)), dtype=np.int64)
    damaged = np.zeros(len(heads), dtype=np.bool_)
    stats, odd = _Rounds(wire, columns, heads, wanted).run()
    for row in odd.tolist():
        slow = _slowly(wire.data, int(heads[row]), columns[:, row], wanted)
        damaged[row] = slow is None
        if slow is not None:
            stats.append(slow._replace(row=slow.row + np.int32(row)))
    return Scanned(columns, damaged, _joined(stats))


class _Open(NamedTuple):
    """Events of which fields are left.

    Args:
        row: Their rows.
        at: Where the next field begins.
        end: Where they end.
    """

    row: Ints
    at: Ints
    end: Ints

    def where(self, those: NDArray[np.bool_]) -> _Open:
        """Some of them."""
        return self if those.all() else _Open(*(column[those] for column in self))


class _Rounds:
    """Decodes some events, all at a time.

    Args:
        wire: The bytes.
        columns: Takes the fields.
        heads: Where the field of every event begins.
        wanted: Ids of the statistics to decode, ascending.
    """

    def __init__(self, wire: Wire, columns: Ints, heads: Ints, wanted: Ints) -> None:
        self._wire = wire
        self._columns = columns
        # An id that no statistic has stands in for none at all.
        self._wanted = wanted if len(wanted) else np.array([MISSING])
        # Only protobuf looks at what ends too close to the end of the data.
        near = heads > len(wire.data) - 2 * REACH
        sizes, lengths = wire.varints(np.where(near, 0, heads + 1))
        at = heads + 1 + lengths
        self._odd = near | (at + sizes > len(wire.data) - REACH)
        every = _Open(np.arange(len(heads)), at, at + sizes)
        self._open = every.where(~self._odd & (sizes > 0))

    def run(self) -> tuple[list[Stats], Ints]:
        """The wanted statistics, and the rows that protobuf has to read."""
        found = []
        while len(self._open.row):
            stats = self._round(self._open)
            if len(stats.row):
                found.append(self._stats(*stats))
        if self._odd.any():
            found = [chosen(stats, ~self._odd[stats.row]) for stats in found]
        return found, np.flatnonzero(self._odd)

    def _round(self, events: _Open) -> _Open:
        """Decode the next field of every event; returns the statistics that were met."""
        codes = _CODES[self._wire.octets[events.at]]
        values, sizes = self._wire.varints(events.at + 1)
        after = events.at + 1 + sizes
        is_stat = codes == _STAT
        # Compared, not added: a lying length must not leave the range of the integers.
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
        for code, column in enumerate(self._columns):
            those = codes == code
            if those.all():
                column[rows if len(rows) < len(column) else slice(None)] = values
                return
            if those.any():
                column[rows[those]] = values[those]

    def _stats(self, rows: Ints, at: Ints, ends: Ints) -> Stats:
        """Those of the statistics that are wanted; events with others than expected are odd."""
        ids, sizes = self._wire.varints(at + 1)
        value_at = at + 1 + sizes
        odd = (self._wire.octets[at] != _STAT_ID_TAG) | (sizes <= 0) | (value_at > ends)
        if odd.any():
            self._odd[rows[odd]] = True
        place = np.minimum(np.searchsorted(self._wanted, ids), len(self._wanted) - 1)
        those = np.flatnonzero((self._wanted[place] == ids) & ~odd & (value_at < ends))
        return self._values(rows[those], place[those], value_at[those], ends[those])

    def _values(self, rows: Ints, which: Ints, at: Ints, ends: Ints) -> Stats:
        tags = self._wire.octets[at]
        values, sizes = self._wire.varints(at + 1)
        after = at + 1 + sizes
        what = _VALUES[tags]
        is_text = what == _IS_TEXT
        good = (sizes > 0) & np.where(is_text, values == ends - after, after == ends)
        good &= what != _IS_STRANGE
        unseen = what == _IS_UNSEEN
        if not (good | unseen).all():
            self._odd[rows[~(good | unseen)]] = True
        sizes = np.where(is_text, values, 0)
        values = np.where(is_text, after, values)
        stats = _stats(rows, which, tags, values, sizes)
        return chosen(stats, ~unseen) if unseen.any() else stats


def _slowly(data: Bytes, head: int, column: Ints, wanted: Ints) -> Stats | None:
    """An event as protobuf reads it, whatever order and types its fields have; None if it cannot.

    Args:
        data: The bytes.
        head: Where the field of the event begins.
        column: Takes its fields.
        wanted: Ids of the statistics to decode.
    """
    part = next(parts(data, head, len(data)))
    event = parse_message("XEvent", data[part.value : part.end])
    if event is None:
        return None
    column[:] = event.metadata_id, event.offset_ps, event.duration_ps, event.num_occurrences
    places = {key: place for place, key in enumerate(wanted.tolist())}
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


def chosen(stats: Stats, where: Ints | NDArray[np.bool_]) -> Stats:
    """Some of them."""
    return Stats(*(column[where] for column in stats))


def _joined(parts: list[Stats]) -> Stats:
    """All of them; empties the list, so that they are not held twice."""
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
