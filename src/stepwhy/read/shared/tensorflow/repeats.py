"""Finds entries of step statistics that repeat other entries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.base.columns.chunks import put, take
from stepwhy.base.columns.groups import group_rows
from stepwhy.read.shared.tensorflow.rows import RowKind

if TYPE_CHECKING:
    from stepwhy.base.columns.types import AnyInts, Mask
    from stepwhy.read.shared.tensorflow.entries import Entries


DEVICE_TIME = (RowKind.STREAM, RowKind.ALL_STREAMS, RowKind.COPIES)
"""Kinds of rows with the activity of accelerators."""


def repeats_of(entries: Entries, order: AnyInts) -> tuple[Mask, Mask]:
    """Find the entries that repeat others, and those that also are on a row of copies.

    Entries are compared one by one: those that are only on a summary row, because the rows of the
    streams are truncated or absent, are no repetitions.

    Returns:
        Two Boolean masks; (entries,) each.
    """
    repeats, copies = np.zeros((2, len(entries)), dtype=bool)
    on_device = order[take(entries.is_kind(*DEVICE_TIME), order)]
    on_device = on_device[take(_may_repeat(entries), take(entries["node"], on_device))]
    is_summary = take(entries.is_kind(RowKind.ALL_STREAMS, RowKind.COPIES), on_device)
    if is_summary.any():
        # Group entries of the same device, node, op and time; (which,).
        devices: dict[str, int] = {}
        device = entries.of_rows(devices.setdefault(r.device, len(devices)) for r in entries.rows)
        columns = (device, *(entries[c] for c in ("node", "op", "start_ns", "dur_ns")))
        group = group_rows(*(take(column, on_device) for column in columns))[1]
        streams = np.bincount(group[~is_summary], minlength=len(on_device))
        again = group[is_summary]
        repeats[on_device[is_summary]] = _occurrence(again) < streams[again]
        on_copies = entries.is_kind(RowKind.COPIES)[on_device]
        copies[on_device] = np.isin(group, group[on_copies])
    return repeats, copies


def _may_repeat(entries: Entries) -> Mask:
    """Whether entries of a node can repeat others or be copies, by the node's name; (names,)."""

    def on(kind: RowKind) -> Mask:
        found = np.zeros(len(entries.names), dtype=bool)
        put(found, entries["node"][entries.is_kind(kind)], True)
        return found

    return on(RowKind.COPIES) | (on(RowKind.ALL_STREAMS) & on(RowKind.STREAM))


def _occurrence(values: AnyInts) -> AnyInts:
    """Number of equal values before each value; (values,)."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    found = np.empty_like(order)
    found[order] = np.arange(len(order)) - np.searchsorted(ordered, ordered)
    return found
