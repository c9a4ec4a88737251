"""The arrays that the compiled scanner reads and fills: the one place that knows their layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import numpy as np

from stepwhy.columns.kernels.tables import words_of

if TYPE_CHECKING:
    import mmap
    from collections.abc import Mapping

    from numpy.typing import NDArray

MISSING: Final = np.iinfo(np.int64).min
"""A number that an event does not carry."""

DONE, STRANGE, FULL = range(3)
"""Why a scan ended: at its goal, at something that is no event, or at a full table."""

_FIELDS = ("position", "row", "unnamed", "summed", "untimed", "odd")
STATE: Final = np.dtype([(name, np.int64) for name in _FIELDS])
"""Position in the data, next row, and how many events lack a name, are sums over many, have no
usable time, or cannot be read by the scanner."""

# Longest table of ids, by their number; larger ids are searched.
_DENSE = 4
_SMALL = 1024


def new_state() -> NDArray[np.void]:
    """One `STATE`; (1,)."""
    return np.zeros(1, dtype=STATE)


class Wire(NamedTuple):
    """A file, as bytes and as the eight bytes from each position on; both read-only."""

    octets: NDArray[np.uint8]
    words: NDArray[np.void]

    @classmethod
    def of(cls, data: bytes | mmap.mmap) -> Self:
        """Both views of a file."""
        octets = np.frombuffer(data, dtype=np.uint8)
        octets.flags.writeable = False
        return cls(octets, words_of(data))


class IdTable(NamedTuple):
    """Numbers by id.

    Args:
        dense: The number of each id from 0 on, `missing` included.
        keys: The other ids, ascending.
        values: Their numbers.
    """

    dense: NDArray[np.int32]
    keys: NDArray[np.int64]
    values: NDArray[np.int32]

    @classmethod
    def of(cls, keys: NDArray[np.int64], values: NDArray[np.int32], missing: int) -> Self:
        """A table.

        Args:
            keys: Ids, ascending.
            values: Their numbers.
            missing: The number of all other ids.
        """
        near = (keys >= 0) & (keys < _DENSE * len(keys) + _SMALL)
        dense = np.full(int(keys[near].max(initial=-1)) + 1, missing, dtype=np.int32)
        dense[keys[near]] = values[near]
        return cls(dense, keys[~near], values[~near].astype(np.int32))


class Shared(NamedTuple):
    """Statistics that all events of an entry share.

    Args:
        which: Their places among the statistics to read; (shared,).
        numbers: By entry, `MISSING` where there is none; (shared, entries).
        codes: Of texts by entry, 0 where there is none; (shared, entries).
    """

    which: NDArray[np.int64]
    numbers: NDArray[np.int64]
    codes: NDArray[np.int32]

    @classmethod
    def of(
        cls, found: Mapping[int, tuple[NDArray[np.int64], NDArray[np.int32]]], entries: int
    ) -> Self:
        """From numbers and codes by place."""
        numbers = np.empty((len(found), entries), dtype=np.int64)
        codes = np.empty((len(found), entries), dtype=np.int32)
        for row, columns in enumerate(found.values()):
            numbers[row], codes[row] = columns
        return cls(np.array([*found], dtype=np.int64), numbers, codes)


class Lookups(NamedTuple):
    """What events refer to.

    Args:
        which: By id of a statistic, its place among those to read plus one, else 0.
        entries: Row of the entry of a metadata id, -1 if missing.
        names: Code of the name of every entry.
        references: Code of the text that a statistic refers to, 0 if missing.
        shared: Statistics of entries, which hold for all of their events.
    """

    which: NDArray[np.uint8]
    entries: IdTable
    names: NDArray[np.int32]
    references: IdTable
    shared: Shared


class Columns(NamedTuple):
    """Columns of events that the scanner fills.

    Args:
        name: Codes; (room,).
        start_ns: (room,).
        dur_ns: (room,).
        numbers: Of each statistic, filled from its first number on; (stats, room).
        codes: Of each statistic, 0 where there is no text; (stats, room).
        has_numbers: Whether a statistic has numbers; (stats,).
        has_codes: Whether a statistic has texts; (stats,).
        odd: Position and row of events that the scanner cannot read; (odd, 2).
        room: How many rows are in use; (1,).
    """

    name: NDArray[np.int32]
    start_ns: NDArray[np.int64]
    dur_ns: NDArray[np.int64]
    numbers: NDArray[np.int64]
    codes: NDArray[np.int32]
    has_numbers: NDArray[np.bool_]
    has_codes: NDArray[np.bool_]
    odd: NDArray[np.int64]
    room: NDArray[np.int64]

    @classmethod
    def empty(cls, room: int, stats: int, odd: int) -> Self:
        """Columns without content; memory that nothing is written to is never used.

        Args:
            room: Number of events.
            stats: Number of statistics.
            odd: Number of events that the scanner cannot read.
        """
        flags: list[NDArray[Any]] = [np.zeros(stats, dtype=np.bool_) for _ in range(2)]
        return cls(
            np.empty(room, dtype=np.int32),
            *(np.empty(room, dtype=np.int64) for _ in range(2)),
            np.empty((stats, room), dtype=np.int64),
            np.zeros((stats, room), dtype=np.int32),
            *flags,
            np.empty((odd, 2), dtype=np.int64),
            np.array([room], dtype=np.int64),
        )
