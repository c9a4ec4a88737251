"""Which entries of rows of step statistics say once more what another one says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepwhy.columns.chunks import put, take
from stepwhy.columns.groups import group_rows
from stepwhy.importers.shared.tensorflow.rows import RowKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.importers.shared.tensorflow.entries import Entries

    Ints = NDArray[np.signedinteger[Any]]
    Flags = NDArray[np.bool_]

DEVICE_TIME = (RowKind.STREAM, RowKind.ALL_STREAMS, RowKind.COPIES)
"""Rows of what accelerators did."""


def repeats_of(entries: Entries, order: Ints) -> tuple[Flags, Flags]:
    """Which entries repeat others, and which are alike to one on a row of copies; (entries,) each.

    Repetition is judged entry by entry: where the numbered streams are cut off or absent, what
    only the summary rows still have is kept.
    """
    repeats, copies = np.zeros((2, len(entries)), dtype=bool)
    on_device = order[take(entries.is_kind(*DEVICE_TIME), order)]
    on_device = on_device[take(_may_repeat(entries), take(entries["node"], on_device))]
    once_more = take(entries.is_kind(RowKind.ALL_STREAMS, RowKind.COPIES), on_device)
    if once_more.any():
        group = _alike(entries, on_device)
        streams = np.bincount(group[~once_more], minlength=len(on_device))
        again = group[once_more]
        repeats[on_device[once_more]] = _occurrence(again) < streams[again]
        on_copies = entries.is_kind(RowKind.COPIES)[on_device]
        copies[on_device] = np.isin(group, group[on_copies])
    return repeats, copies


def _may_repeat(entries: Entries) -> Flags:
    """For every name whether an entry of that node can repeat or be a copy; (names,)."""

    def on(kind: RowKind) -> Flags:
        found = np.zeros(len(entries.names), dtype=bool)
        put(found, entries["node"][entries.is_kind(kind)], True)
        return found

    return on(RowKind.COPIES) | (on(RowKind.ALL_STREAMS) & on(RowKind.STREAM))


def _alike(entries: Entries, which: Ints) -> Ints:
    """Numbers of what is the same device, node, op and time; (which,)."""
    devices: dict[str, int] = {}
    device = entries.of_rows(devices.setdefault(r.device, len(devices)) for r in entries.rows)
    columns = (device, *(entries[c] for c in ("node", "op", "start_ns", "dur_ns")))
    return group_rows(*(take(column, which) for column in columns))[1]


def _occurrence(values: Ints) -> Ints:
    """How many of the values before each are the same; (values,)."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    found = np.empty_like(order)
    found[order] = np.arange(len(order)) - np.searchsorted(ordered, ordered)
    return found


__all__ = ["DEVICE_TIME", "repeats_of"]
