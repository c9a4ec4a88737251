"""Collects the events of a plane chunk by chunk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.base.columns.chunks import chunks
from stepwhy.base.columns.narrow import is_constant
from stepwhy.read.formats.xplane.events import (
    CORRELATION,
    IDS,
    Events,
    Labels,
    joined_labels,
    missing_id,
)
from stepwhy.read.formats.xplane.groups import equal_rows
from stepwhy.read.formats.xplane.kernels.layout import MISSING
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from stepwhy.base.columns.types import AnyInts


# Statistics of which only the presence is used.
_MARKS = IDS | {"step_num"}
_LARGEST_ID = 1 << 62
_LARGEST_NARROW = np.iinfo(np.int32).max


class Collector:
    """Collects events as columns; events with equal labels share one.

    Args:
        room: Maximum number of events; unused room takes no memory.
    """

    def __init__(self, room: int) -> None:
        self._count = 0
        self._label = np.empty(room, dtype=np.int32)
        self._start_ns, self._dur_ns = (np.empty(room, dtype=np.int64) for _ in range(2))
        self._ids: dict[str, AnyInts] = {}
        self._labels: list[Labels] = []
        self._label_count = 0

    def __len__(self) -> int:
        """Number of events so far."""
        return self._count

    def add(self, labels: Labels, start_ns: AnyInts, dur_ns: AnyInts) -> None:
        """Append events.

        Args:
            labels: A label for each event, with the values of `IDS`; changed in place.
            start_ns: Starts, see `Events`; (events,).
            dur_ns: Durations, see `Events`; (events,).
        """
        if not len(labels):
            return
        rows = slice(self._count, self._count + len(labels))
        self._start_ns[rows], self._dur_ns[rows] = start_ns, dur_ns
        for stat in IDS & labels.numbers.keys():
            self._add_ids(stat, labels.numbers[stat], rows)
        for stat in _MARKS & labels.numbers.keys():
            labels.numbers[stat] = np.where(labels.numbers[stat] == MISSING, MISSING, 1)
        # Constant columns do not distinguish labels.
        differing = [column for column in labels.columns if not is_constant(column)]
        first, group = equal_rows(*differing)
        np.add(group, self._label_count, out=self._label[rows], casting="same_kind")
        self._labels.append(labels.take(first))
        self._label_count += len(first)
        self._count = rows.stop

    def _add_ids(self, stat: str, numbers: AnyInts, rows: slice) -> None:
        column = self._ids.get(stat)
        if column is None:
            column = np.full(len(self._label), missing_id(stat))
        if stat == CORRELATION:
            numbers = np.where((numbers <= 0) | (numbers >= _LARGEST_ID), NULL, numbers)
            if numbers.max() > _LARGEST_NARROW:
                column = column.astype(np.int64, copy=False)
        column[rows] = numbers
        self._ids[stat] = column

    def finish(self) -> Events:
        """All events; nothing may be added afterwards."""
        if not self._count:
            return Events.empty()
        used = slice(self._count)
        ids = {stat: column[used] for stat, column in self._ids.items()}
        labels, label = joined_labels(self._labels), self._label[used]
        first, group = equal_rows(*labels.columns)
        if len(first) < len(labels):
            labels = labels.take(first)
            for chunk in chunks(len(label)):
                label[chunk] = group[label[chunk]]
        return Events(labels, label, self._start_ns[used], self._dur_ns[used], ids)
