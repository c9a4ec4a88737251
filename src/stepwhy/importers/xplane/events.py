"""Events as columns: what the readers of planes work on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from stepwhy.importers.xplane import compiled

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    Ints = NDArray[np.signedinteger[Any]]

MISSING = np.iinfo(np.int64).min
"""Stands for a number that an event does not carry."""

# Codes below this can be combined with rows of any file without leaving the range of the integers.
_LARGEST_CODE = 1 << 31
# A table of this many times the rows still fits where sorting them would take longer.
_DENSE = 4
_SMALL = 1024  # rows of a table that fits whatever the rows are
# Kernels number rows with 32 bits; the first table of groups has room for so many.
_MOST_ROWS = 1 << 31
_FIRST_GROUPS = 1 << 12


class Texts:
    """Texts by code; 0 is the empty text, which stands for none."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {"": 0}
        self._texts = [""]

    def code(self, text: str) -> int:
        """The code of a text, the same for equal texts."""
        code = self._codes.setdefault(text, len(self._texts))
        if code == len(self._texts):
            self._texts.append(text)
        return code

    def __getitem__(self, code: int) -> str:
        """The text of a code."""
        return self._texts[code]


class Line(msgspec.Struct, frozen=True):
    """A thread or stream."""

    id: int
    name: str


class Events(msgspec.Struct, eq=False):
    """Events of some lines, in the order of the lines and of the file; all columns equally long.

    Args:
        line: Row of `lines` of whoever holds the events.
        name: Code of the name.
        start_ns: On the clock of the profiling session.
        dur_ns: Never negative.
        numbers: By statistic, with `MISSING` where an event has none.
        texts: By statistic, codes.
    """

    line: Ints
    name: Ints
    start_ns: Ints
    dur_ns: Ints
    numbers: dict[str, Ints] = msgspec.field(default_factory=dict)
    texts: dict[str, Ints] = msgspec.field(default_factory=dict)

    @classmethod
    def empty(cls) -> Events:
        """None at all."""
        none = np.empty(0, dtype=np.int64)
        return cls(none, none, none, none)

    def __len__(self) -> int:
        """How many."""
        return len(self.line)

    @property
    def end_ns(self) -> Ints:
        """The ends."""
        return self.start_ns + self.dur_ns

    def number(self, stat: str) -> Ints:
        """A statistic as numbers."""
        found = self.numbers.get(stat)
        return np.full(len(self), MISSING) if found is None else found

    def text(self, stat: str) -> Ints:
        """A statistic as codes."""
        found = self.texts.get(stat)
        return np.zeros(len(self), dtype=np.int32) if found is None else found

    def take(self, rows: Ints | NDArray[np.bool_]) -> Events:
        """Some of them; the events themselves where that is all."""
        if rows.dtype == np.bool_ and rows.all():
            return self
        return Events(
            self.line[rows],
            self.name[rows],
            self.start_ns[rows],
            self.dur_ns[rows],
            {stat: column[rows] for stat, column in self.numbers.items()},
            {stat: column[rows] for stat, column in self.texts.items()},
        )


def joined(parts: Sequence[Events]) -> Events:
    """Events one after the other; their lines must be counted in one list already.

    Of several parts nothing is left, so that no more than a column is held twice.
    """
    if len(parts) < 2:
        return parts[0] if parts else Events.empty()
    lengths = [len(part) for part in parts]
    numbers = [part.numbers for part in parts]
    texts = [part.texts for part in parts]
    return Events(
        _drained(parts, "line"),
        _drained(parts, "name"),
        _drained(parts, "start_ns"),
        _drained(parts, "dur_ns"),
        _joined_stats(numbers, lengths, np.int64(MISSING)),
        _joined_stats(texts, lengths, np.int32(0)),
    )


def _drained(parts: Sequence[Events], name: str) -> Ints:
    """A column of all parts, which they no longer hold."""
    column = joined_columns(getattr(part, name) for part in parts)
    for part in parts:
        setattr(part, name, column[:0])
    return column


def _joined_stats(
    parts: Sequence[dict[str, Ints]], lengths: Sequence[int], missing: np.signedinteger[Any]
) -> dict[str, Ints]:
    """Statistics of all parts, which they no longer hold; some parts may lack some."""
    found = {}
    for stat in sorted({stat for part in parts for stat in part}):
        columns = [part.pop(stat, None) for part in parts]
        found[stat] = joined_columns(
            np.broadcast_to(missing, length) if column is None else column
            for column, length in zip(columns, lengths, strict=True)
        )
    return found


def joined_columns(columns: Iterable[Ints]) -> Ints:
    """Columns one after the other."""
    found = list(columns)
    return np.concatenate(found) if found else np.empty(0, dtype=np.int64)


def alike(*columns: Ints | NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """Group rows that agree in all columns.

    Args:
        columns: Numbers of any kind, equally long.

    Returns:
        The first row of every group, in the order of the file; the group of every row.
    """
    kernel = compiled.for_rows(len(columns[0]), "group_rows")
    if kernel is None or len(columns[0]) >= _MOST_ROWS:
        return _alike(*columns)
    given = [np.ascontiguousarray(column) for column in columns]
    of_columns = np.array([(c.ctypes.data, c.itemsize) for c in given], dtype=np.int64)
    rows, room = len(columns[0]), _FIRST_GROUPS
    group = np.empty(rows, dtype=np.int32)
    while True:
        first = np.empty(room, dtype=np.int32)
        slots = np.zeros(2 * room, dtype=np.int32)
        # The fields of the kernel, in its order.
        fields = [of_columns.ctypes.data, len(given), rows, slots.ctypes.data, len(slots) - 1]
        fields += [first.ctypes.data, room, group.ctypes.data]
        groups = kernel(np.array(fields, dtype=np.int64).ctypes.data)
        if groups >= 0:
            return first[:groups], group
        room *= 8


def _alike(*columns: Ints | NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """As `alike`, one column after the other."""
    key = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        codes = column.astype(np.int64, copy=False)
        is_code = codes.min(initial=0) >= 0 and codes.max(initial=0) < _LARGEST_CODE
        codes = codes if is_code else ranked(codes)
        largest = int(codes.max(initial=0))
        if largest:
            key = _dense(key * (largest + 1) + codes)
    groups = int(key.max(initial=-1)) + 1
    first = np.empty(groups, dtype=np.int64)
    first[key[::-1]] = np.arange(len(key))[::-1]  # of equal keys the last one written stays
    order = np.argsort(first)
    place = np.empty(groups, dtype=np.int64)
    place[order] = np.arange(groups)
    return first[order], place[key]


def distinct(codes: Ints) -> NDArray[np.intp]:
    """The codes that occur, ascending.

    Args:
        codes: None negative, and not much larger than they are many.
    """
    taken = np.zeros(int(codes.max(initial=-1)) + 1, dtype=np.bool_)
    taken[codes] = True
    return np.flatnonzero(taken)


def ranked(column: Ints) -> Ints:
    """Codes in place of any numbers, different where those are; `MISSING` is 0 where it occurs."""
    is_there = column != MISSING
    present = column if is_there.all() else column[is_there]
    if not len(present):
        return np.zeros(len(column), dtype=np.int64)
    low, high = int(present.min()), int(present.max())
    if high - low <= _DENSE * len(column) + _SMALL:
        return np.where(is_there, column - low + 1, 0)
    return _sorted_ranks(column)


def _dense(key: Ints) -> Ints:
    """Codes from 0 on, of which each occurs, in place of numbers of which none is negative."""
    largest = int(key.max(initial=0))
    if largest <= _DENSE * len(key) + _SMALL:
        taken = np.zeros(largest + 1, dtype=np.bool_)
        taken[key] = True
        return np.cumsum(taken, dtype=np.int32)[key].astype(np.int64) - 1
    return _sorted_ranks(key)


def _sorted_ranks(column: Ints) -> Ints:
    return np.unique(column, return_inverse=True)[1].reshape(-1)
