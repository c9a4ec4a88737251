"""Events of an XPlane profile as columns.

Most events of a profile differ only in their times. Everything that events share is stored once, as
a label. Each event has the row of its label, its times and its unique ids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from stepwhy.base.columns.chunks import chunks, take
from stepwhy.read.formats.xplane.groups import equal_rows
from stepwhy.read.formats.xplane.kernels.layout import MISSING
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from stepwhy.base.columns.types import AnyInts, Mask


CORRELATION = "correlation_id"
IDS = frozenset({CORRELATION, "id", "_c", "_p"})
"""Statistics that are unique to an event."""


def missing_id(stat: str) -> np.signedinteger[Any]:
    """Value of a statistic of `IDS` that an event does not have.

    Correlation ids are positive, and seldom need more than 32 bits.
    """
    return np.int32(NULL) if stat == CORRELATION else np.int64(MISSING)


class Texts:
    """Interned texts; code 0 is the empty text, which means none."""

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

    def __iter__(self) -> Iterator[str]:
        """All texts in the order of their codes."""
        return iter(self._texts)


class Line(msgspec.Struct, frozen=True):
    """A thread or stream."""

    id: int
    name: str


class Labels(msgspec.Struct, eq=False):
    """Properties that events share: everything but times and `IDS`. Rows may be equal.

    Args:
        line: Row of the line in its plane; (labels,).
        name: Code of the name; (labels,).
        numbers: Numeric statistics, `MISSING` where absent; of `IDS`, 1 if present; (labels,) each.
        texts: Codes of text statistics; (labels,) each.
    """

    line: AnyInts
    name: AnyInts
    numbers: dict[str, AnyInts] = msgspec.field(default_factory=dict)
    texts: dict[str, AnyInts] = msgspec.field(default_factory=dict)

    def __len__(self) -> int:
        """Number of labels."""
        return len(self.name)

    @property
    def columns(self) -> list[AnyInts]:
        """All columns."""
        return [self.name, self.line, *self.numbers.values(), *self.texts.values()]

    def number(self, stat: str) -> AnyInts:
        """A numeric statistic; (labels,)."""
        found = self.numbers.get(stat)
        return np.full(len(self), MISSING) if found is None else found

    def text(self, stat: str) -> AnyInts:
        """Codes of a text statistic; (labels,)."""
        found = self.texts.get(stat)
        return np.zeros(len(self), dtype=np.int32) if found is None else found

    def take(self, rows: AnyInts | Mask) -> Labels:
        """Select labels by row or by mask."""
        return Labels(
            self.line[rows],
            self.name[rows],
            {stat: column[rows] for stat, column in self.numbers.items()},
            {stat: column[rows] for stat, column in self.texts.items()},
        )


class Events(msgspec.Struct, eq=False):
    """Events of some lines, ordered by line and then as in the file.

    Args:
        labels: Shared properties; every label is used.
        label: Row of every event's label; (events,).
        start_ns: Start on the clock of the profiling session; (events,).
        dur_ns: Duration, never negative; (events,).
        ids: Statistics of `IDS`, `missing_id` where absent; (events,) each.
    """

    labels: Labels
    label: AnyInts
    start_ns: AnyInts
    dur_ns: AnyInts
    ids: dict[str, AnyInts] = msgspec.field(default_factory=dict)

    @classmethod
    def empty(cls) -> Events:
        """No events."""
        few, none = np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int64)
        return cls(Labels(few, few), few, none, none)

    def __len__(self) -> int:
        """Number of events."""
        return len(self.label)

    @property
    def line(self) -> AnyInts:
        """Row of every event's line; (events,)."""
        return take(self.labels.line, self.label)

    @property
    def name(self) -> AnyInts:
        """Code of every event's name; (events,)."""
        return take(self.labels.name, self.label)

    def id(self, stat: str) -> AnyInts:
        """A statistic of `IDS`; (events,)."""
        found = self.ids.get(stat)
        return np.full(len(self), missing_id(stat)) if found is None else found

    def counts(self) -> AnyInts:
        """Number of events per label; (labels,)."""
        found = np.zeros(len(self.labels), dtype=np.int64)
        for chunk in chunks(len(self)):
            found += np.bincount(self.label[chunk], minlength=len(found))
        return found

    def labelled(self, chosen: Mask) -> Events:
        """The events whose label is in a mask; (labels,)."""
        found = Events(self.labels, self.label, self.start_ns, self.dur_ns, dict(self.ids))
        found.keep(chosen)
        return found

    def keep(self, chosen: Mask) -> None:
        """Drop all events whose label is not in a mask; (labels,)."""
        if chosen.all():
            return
        self.reorder(np.flatnonzero(take(chosen, self.label)))
        self.labels = self.labels.take(chosen)
        self.label = take(np.cumsum(chosen, dtype=np.int32) - np.int32(1), self.label)

    def reorder(self, rows: AnyInts) -> None:
        """Select and reorder events, one column at a time to save memory."""
        for name in ("label", "start_ns", "dur_ns"):
            setattr(self, name, take(getattr(self, name), rows))
        for stat, column in self.ids.items():
            self.ids[stat] = take(column, rows)

    def number_labels(self) -> None:
        """Order labels by their first event."""
        first = np.zeros(len(self.labels), dtype=np.int64)
        for chunk in reversed(list(chunks(len(self)))):
            # Reversed, so that the first event of a label is written last.
            first[self.label[chunk][::-1]] = np.arange(chunk.stop - 1, chunk.start - 1, -1)
        if (first[1:] > first[:-1]).all():
            return
        order = np.argsort(first)
        place = np.empty(len(order), dtype=np.int32)
        place[order] = np.arange(len(order), dtype=np.int32)
        self.labels, self.label = self.labels.take(order), take(place, self.label)

    def split_labels(self, *columns: Mask | AnyInts) -> tuple[AnyInts, list[NDArray[Any]]]:
        """Split labels whose events differ in further columns.

        Args:
            columns: Further columns; (events,) each.

        Returns:
            The previous row of every label; the further columns per label.
        """
        if not any(column.any() for column in columns):
            none = [np.zeros(len(self.labels), dtype=column.dtype) for column in columns]
            return np.arange(len(self.labels)), list(none)
        first, label = equal_rows(self.label, *columns)
        before = self.label[first]
        self.labels, self.label = self.labels.take(before), label
        return before, [column[first] for column in columns]


def joined(parts: Sequence[Events]) -> Events:
    """Concatenate events, whose lines must refer to one list.

    Empties the parts one column at a time, to save memory.
    """
    if len(parts) < 2:
        return parts[0] if parts else Events.empty()
    lengths = [len(part) for part in parts]
    labels = [part.labels for part in parts]
    before = np.cumsum([0, *map(len, labels)])
    for part, count in zip(parts, before.tolist(), strict=False):
        part.label = part.label + np.int32(count)
    return Events(
        joined_labels(labels),
        _drained(parts, "label"),
        _drained(parts, "start_ns"),
        _drained(parts, "dur_ns"),
        _joined_stats([part.ids for part in parts], lengths, missing_id),
    )


def joined_labels(parts: Sequence[Labels]) -> Labels:
    """Concatenate labels; parts may have different statistics."""
    lengths = [len(part) for part in parts]
    return Labels(
        np.concatenate([part.line for part in parts]),
        np.concatenate([part.name for part in parts]),
        _joined_stats([dict(part.numbers) for part in parts], lengths, lambda _: np.int64(MISSING)),
        _joined_stats([dict(part.texts) for part in parts], lengths, lambda _: np.int32(0)),
    )


def _drained(parts: Sequence[Events], name: str) -> AnyInts:
    """Concatenate a column of all parts, and remove it from them."""
    column = np.concatenate([getattr(part, name) for part in parts])
    for part in parts:
        setattr(part, name, column[:0].copy())  # a view would keep the whole column alive
    return column


def _joined_stats(
    parts: Sequence[dict[str, AnyInts]],
    lengths: Sequence[int],
    missing: Callable[[str], np.signedinteger[Any]],
) -> dict[str, AnyInts]:
    """Concatenate the statistics of all parts, and remove them; parts may have different ones."""
    found = {}
    for stat in sorted({stat for part in parts for stat in part}):
        columns = [part.pop(stat, None) for part in parts]
        found[stat] = np.concatenate(
            [
                np.broadcast_to(missing(stat), length) if column is None else column
                for column, length in zip(columns, lengths, strict=True)
            ]
        )
    return found
