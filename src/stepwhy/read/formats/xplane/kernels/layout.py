"""The arrays that the compiled scanner reads and fills: the one place that knows their layout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import numpy as np

from stepwhy.base.columns.kernels.tables import words_of

if TYPE_CHECKING:
    import mmap
    from collections.abc import Mapping

    from numpy.typing import NDArray

MISSING: Final = np.iinfo(np.int64).min
"""Value of a number that an event does not have."""

DONE, UNREADABLE, FULL = range(3)
"""Why a scan ended: it reached its goal, found data that it cannot read, or filled a table."""

_FIELDS = ("position", "row", "unnamed", "summed", "untimed", "odd")
STATE: Final = np.dtype([(name, np.int64) for name in _FIELDS])
"""Position in the data, next row, and the number of events that have no name, are sums over many,
have no usable time, or cannot be read by the scanner."""

# Largest lookup table, in entries per id and in any case; ids beyond it are found by binary search.
_DENSE = 4
_SMALL = 1024


def new_state() -> NDArray[np.void]:
    """A `STATE` of zeros; (1,)."""
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
    """Maps ids to integers.

    Args:
        dense: Value of every id from 0, `missing` for ids that do not occur; (ids,).
        keys: Ids beyond `dense`, ascending; (others,).
        values: Their values; (others,).
    """

    dense: NDArray[np.int32]
    keys: NDArray[np.int64]
    values: NDArray[np.int32]

    @classmethod
    def of(cls, keys: NDArray[np.int64], values: NDArray[np.int32], missing: int) -> Self:
        """Build a table.

        Args:
            keys: Ids, ascending; (ids,).
            values: Their values; (ids,).
            missing: Value of ids that do not occur.
        """
        near = (keys >= 0) & (keys < _DENSE * len(keys) + _SMALL)
        dense = np.full(int(keys[near].max(initial=-1)) + 1, missing, dtype=np.int32)
        dense[keys[near]] = values[near]
        return cls(dense, keys[~near], values[~near].astype(np.int32))


class Shared(NamedTuple):
    """Statistics that all events of a metadata entry share.

    Args:
        which: Their positions among the statistics to read; (shared,).
        numbers: Numbers, `MISSING` where absent; (shared, entries).
        codes: Codes of texts, 0 where absent; (shared, entries).
    """

    which: NDArray[np.int64]
    numbers: NDArray[np.int64]
    codes: NDArray[np.int32]

    @classmethod
    def of(
        cls, found: Mapping[int, tuple[NDArray[np.int64], NDArray[np.int32]]], entries: int
    ) -> Self:
        """Combine columns of numbers and codes, given by position among the statistics to read."""
        numbers = np.empty((len(found), entries), dtype=np.int64)
        codes = np.empty((len(found), entries), dtype=np.int32)
        for row, columns in enumerate(found.values()):
            numbers[row], codes[row] = columns
        return cls(np.array([*found], dtype=np.int64), numbers, codes)


class Lookups(NamedTuple):
    """Tables of what events refer to.

    Args:
        which: Position of a statistic, by id, among those to read plus one; 0 for others; (ids,).
        entries: Maps metadata ids to rows of entries, -1 if missing.
        names: Code of the name of every entry; (entries,).
        references: Maps references of statistics to codes of texts, 0 if missing.
        shared: Statistics of entries.
    """

    which: NDArray[np.uint8]
    entries: IdTable
    names: NDArray[np.int32]
    references: IdTable
    shared: Shared


class Columns(NamedTuple):
    """Columns of events that the scanner fills.

    Args:
        name: Codes of names; (room,).
        start_ns: Starts; (room,).
        dur_ns: Durations; (room,).
        numbers: Numbers of every statistic, valid only where `has_numbers`; (stats, room).
        codes: Codes of texts of every statistic, 0 where absent; (stats, room).
        has_numbers: Whether a statistic has numbers; (stats,).
        has_codes: Whether a statistic has texts; (stats,).
        odd: Position and row of events that the scanner cannot read; (odd, 2).
        room: Number of rows that may be filled; (1,).
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
        """Columns without content; their pages take no memory until written to.

        Args:
            room: Number of events.
            stats: Number of statistics.
            odd: Maximum number of events that the scanner cannot read.
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
