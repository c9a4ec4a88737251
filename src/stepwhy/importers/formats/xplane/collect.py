"""Collects the events of a plane, some at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepwhy.columns.chunks import chunks
from stepwhy.columns.narrow import is_constant
from stepwhy.importers.formats.xplane.events import (
    CORRELATION,
    IDS,
    Events,
    Labels,
    joined_labels,
    missing_id,
)
from stepwhy.importers.formats.xplane.groups import alike
from stepwhy.importers.formats.xplane.kernels.layout import MISSING
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.signedinteger[Any]]

# Statistics of which it matters whether an event has them, not what they say.
_MARKS = IDS | {"step_num"}
_LARGEST_ID = 1 << 62
_LARGEST_NARROW = np.iinfo(np.int32).max


class Collector:
    """Takes events as they are read, and holds of each no more than `Events` does.

    Args:
        room: No more events than this will come; memory is used for those that do.
    """

    def __init__(self, room: int) -> None:
        self._count = 0
        self._label = np.empty(room, dtype=np.int32)
        self._start_ns, self._dur_ns = (np.empty(room, dtype=np.int64) for _ in range(2))
        self._ids: dict[str, Ints] = {}
        self._labels: list[Labels] = []
        self._label_count = 0

    def __len__(self) -> int:
        """How many events came."""
        return self._count

    def add(self, labels: Labels, start_ns: Ints, dur_ns: Ints) -> None:
        """Take some events.

        Args:
            labels: What each of them says, with the numbers of `IDS`.
            start_ns: See `Events`.
            dur_ns: See `Events`.
        """
        if not len(labels):
            return
        here = slice(self._count, self._count + len(labels))
        self._start_ns[here], self._dur_ns[here] = start_ns, dur_ns
        for stat in IDS & labels.numbers.keys():
            self._add_ids(stat, labels.numbers[stat], here)
        for stat in _MARKS & labels.numbers.keys():
            labels.numbers[stat] = np.where(labels.numbers[stat] == MISSING, MISSING, 1)
        # A column with one value, repeated without memory, tells nothing apart.
        differing = [column for column in labels.columns if not is_constant(column)]
        first, group = alike(*differing)
        np.add(group, self._label_count, out=self._label[here], casting="same_kind")
        self._labels.append(labels.take(first))
        self._label_count += len(first)
        self._count = here.stop

    def _add_ids(self, stat: str, numbers: Ints, here: slice) -> None:
        column = self._ids.get(stat)
        if column is None:
            column = np.full(len(self._label), missing_id(stat))
        if stat == CORRELATION:
            numbers = np.where((numbers <= 0) | (numbers >= _LARGEST_ID), NULL, numbers)
            if numbers.max() > _LARGEST_NARROW:
                column = column.astype(np.int64, copy=False)
        column[here] = numbers
        self._ids[stat] = column

    def finish(self) -> Events:
        """All events that came."""
        if not self._count:
            return Events.empty()
        came = slice(self._count)
        ids = {stat: column[came] for stat, column in self._ids.items()}
        labels, label = joined_labels(self._labels), self._label[came]
        first, group = alike(*labels.columns)
        if len(first) < len(labels):
            labels = labels.take(first)
            for chunk in chunks(len(label)):
                label[chunk] = group[label[chunk]]
        return Events(labels, label, self._start_ns[came], self._dur_ns[came], ids)
