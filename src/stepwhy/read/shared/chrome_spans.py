"""Ranges of a Chrome trace that consist of a begin and an end, on a thread or with an id.

Source: the "Trace Event Format" document of the Chromium project: duration events ('B', 'E', 'X'),
nestable async events ('b', 'e', 'n') and the older 'S', 'F'.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic

import msgspec
import numpy as np

from stepwhy.base.columns.chunks import take
from stepwhy.base.columns.groups import group_rows
from stepwhy.base.columns.order import parents_first
from stepwhy.base.patterns import regex
from stepwhy.read.shared.chrome_json import SLICE, A, Codes, Collector, Event, count_untimed
from stepwhy.read.shared.chrome_pairs import pair
from stepwhy.trace import NULL
from stepwhy.trace.model import among

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from numpy.typing import NDArray

    from stepwhy.read.shared.chrome_json import Batch, Table
    from stepwhy.read.shared.chrome_pairs import Pairs
    from stepwhy.trace import Health

ON_THREAD: Final = tuple(map(ord, "XBE"))
"""Phases of the records of ranges on threads."""

ASYNC: Final = tuple(map(ord, "beSF"))
"""Phases of the records of ranges with an id."""

_BEGINS = tuple(map(ord, "BbS"))
_AT_ONCE = 1 << 21  # records that are paired together, unless a key has more
_NONE = np.empty(0, dtype=np.int32)
# Ids that are numbers in canonical form: '12', '0xc'.
_NUMBERED = (
    (regex(r"0|[1-9]\d{0,17}"), 10),
    (regex(r"0x(?:0|[1-9a-f][0-9a-f]{0,14})"), 16),
)


class Times(msgspec.Struct, frozen=True):
    """Times of ranges.

    Args:
        start_ns: Their starts; (ranges,).
        dur_ns: Their durations, not negative; (ranges,).
    """

    start_ns: NDArray[np.int64]
    dur_ns: NDArray[np.int64]

    def __len__(self) -> int:
        """Number of ranges."""
        return len(self.start_ns)

    @property
    def end_ns(self) -> NDArray[np.int64]:
        """Their ends; (ranges,)."""
        return self.start_ns + self.dur_ns

    def outermost_first(self) -> NDArray[np.int32]:
        """Their order by start, then longest first; (ranges,)."""
        return outermost_first(self.start_ns, self.dur_ns)


class Spans(Times, frozen=True):
    """Ranges.

    Args:
        first: Rows of the records that begin them, or are all of them; (ranges,).
        last: Rows of those that end them; (ranges,).
    """

    first: NDArray[np.int32]
    last: NDArray[np.int32]

    @property
    def times(self) -> Times:
        """The times, without the records."""
        return Times(self.start_ns, self.dur_ns)


def outermost_first(start_ns: NDArray[np.int64], dur_ns: NDArray[np.int64]) -> NDArray[np.int32]:
    """The order by start, then longest first, then row; (ranges,)."""
    order = parents_first(start_ns, dur_ns)
    return np.arange(len(start_ns), dtype=np.int32) if order is None else order.astype(np.int32)


class Identified(Event[A], Generic[A], gc=False):
    """A record with an id that can join it to others."""

    id: Any = None
    id2: Any = None


def spans_of(table: Table, health: Health) -> Spans:
    """The ranges on threads: those of one record first, then pairs in the order of their ends.

    An end closes the innermost open range of its thread that has its name; without a name, or
    without such a range, the innermost one.

    Args:
        table: The file's records of the phases `ON_THREAD`.
        health: Counts the records that are part of a range, and those that are not.
    """
    complete = np.flatnonzero(table.phase == SLICE).astype(np.int32)
    is_timed = table.timed[complete]
    timed = complete[is_timed]
    count_untimed(health, len(complete) - len(timed))
    health.events_kept += len(timed)
    first, last = _pair(table, table.phase != SLICE, table.place, health)
    if len(first):
        first, last = np.concatenate([timed, first]), np.concatenate([timed, last])
    else:
        first = last = timed
    start_ns, dur_ns = take(table.start_ns, first), take(table.start_ns, last)
    dur_ns -= start_ns
    dur_ns[: len(timed)] = table.dur_ns[is_timed]
    return Spans(start_ns, dur_ns, first, last)


def async_spans_of(table: Table, health: Health) -> Spans:
    """The ranges of records with the same id, in the order of their ends.

    Args:
        table: The file's records of the phases `ASYNC`, with the columns of `Identities`.
        health: Counts the records that are part of a range, and those that are not.
    """
    family, number = table.more["family"], table.more["number"]
    known = family != NULL
    health.count(
        "async-without-id",
        "warning",
        "Begins and ends without an id were left out.",
        count=len(family) - int(known.sum()),
        dropped=True,
    )
    first, last = _pair(table, known, group_rows(family, number)[1], health)
    start_ns, dur_ns = take(table.start_ns, first), take(table.start_ns, last)
    dur_ns -= start_ns
    return Spans(start_ns, dur_ns, first, last)


class Identities:
    """Numbers the ids of async records; numeric ids stay as they are, as there can be many."""

    def __init__(self) -> None:
        self._families, self._others = Codes(), Codes()

    def of(self, events: list[Identified[Any]]) -> dict[str, NDArray[Any]]:
        """Columns that are equal in records of one range: family (NULL without an id), number."""
        found = [self._code(event) for event in events]
        family = np.fromiter((f for f, _ in found), dtype=np.int32, count=len(found))
        number = np.fromiter((n for _, n in found), dtype=np.int64, count=len(found))
        return {"family": family, "number": number}

    def _code(self, event: Identified[Any]) -> tuple[int, int]:
        one = _id_of(event)
        if one is None:
            return NULL, 0
        # An id in a namespace (a tuple) may be local to the process.
        process = event.pid if isinstance(one, tuple) else None
        for pattern, base in _NUMBERED:
            if isinstance(one, str) and pattern.fullmatch(one):
                return self._families[process, event.cat, base], int(one, base)
        return self._families[process, event.cat, NULL], self._others[one]


def _id_of(event: Identified[Any]) -> Hashable:
    """The id of a record, with its namespace ({'local': x}) if there is one."""
    if isinstance(event.id2, dict) and event.id2:
        return tuple(sorted((str(k), str(v)) for k, v in event.id2.items()))
    return None if event.id is None else str(event.id)


def _pair(
    table: Table, chosen: NDArray[np.bool_], keys: NDArray[np.int32], health: Health
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Begins and ends of the same key, in the order of the ends.

    Args:
        table: The records.
        chosen: Records to pair; (records,).
        keys: Key of every record; (records,).
        health: Counts records with and without a partner.
    """
    count_untimed(health, int((chosen & ~table.timed).sum()))
    chosen = chosen & table.timed
    of_use = table.name_of_use
    parts = [
        _pair_some(table, np.flatnonzero(rows).astype(np.int32), keys, of_use)
        for rows in _split_by_key(chosen, keys)
    ]
    first = np.concatenate([part.first for part in parts] or [_NONE])
    last = np.concatenate([part.last for part in parts] or [_NONE])
    health.events_kept += 2 * len(first)
    _count_unmatched(health, sum(p.open for p in parts), sum(p.unmatched for p in parts))
    del parts
    order = np.lexsort((last, take(table.start_ns, last)))
    return take(first, order), take(last, order)


def _split_by_key(
    chosen: NDArray[np.bool_], keys: NDArray[np.int32]
) -> Iterator[NDArray[np.bool_]]:
    """Split the chosen records into parts that contain all records of their keys.

    Args:
        chosen: The chosen records; (records,).
        keys: Keys, not negative; (records,).
    """
    highest = int(keys.max(initial=0))
    step = max((highest + 1) * _AT_ONCE // max(int(chosen.sum()), 1), 1)
    for low in range(0, highest + 1, step):
        some = chosen & (keys >= low) if low else chosen.copy()
        if low + step <= highest:
            some &= keys < low + step
        yield some


def _pair_some(
    table: Table, rows: NDArray[np.int32], keys: NDArray[np.int32], of_use: NDArray[np.int32]
) -> Pairs:
    """Pair records; the result has rows of the table.

    Args:
        table: The records.
        rows: Records to pair, ascending.
        keys: Key of every record of the table.
        of_use: Name of every use.
    """
    # Stable: records of the same time stay in the order of the file.
    rows = rows[np.lexsort((table.start_ns[rows], keys[rows]))]
    begins = among(table.phase[rows], _BEGINS)
    found = pair(keys[rows], begins, of_use[table.use[rows]])
    return found._replace(first=rows[found.first], last=rows[found.last])


def _count_unmatched(health: Health, begins: int, ends: int) -> None:
    health.count(
        "begin-without-end",
        "warning",
        "Ranges without an end were left out: the file stops before it, or it is missing.",
        count=begins,
        dropped=True,
    )
    health.count(
        "end-without-begin",
        "warning",
        "Ends of ranges that began before the recording, or whose begin is missing, were left out.",
        count=ends,
        dropped=True,
    )


def of_phase(batch: Batch[Any], phases: tuple[int, ...]) -> NDArray[np.int64]:
    """Rows of a batch that are of some phases."""
    return np.flatnonzero(among(batch.phase, phases))


__all__ = [
    "ASYNC",
    "ON_THREAD",
    "Collector",
    "Identified",
    "Identities",
    "Spans",
    "Times",
    "async_spans_of",
    "of_phase",
    "spans_of",
]
