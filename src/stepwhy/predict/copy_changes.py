"""Edits of copies, and of exchanges between devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.base.columns.groups import group_rows
from stepwhy.predict.change import (
    Change,
    NothingToChangeError,
    kept_share,
    remove_work,
    scale,
    waits_for,
    work_of_kinds,
)
from stepwhy.predict.edges import NEVER_NS
from stepwhy.trace import Copy, Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.base.columns.types import Rows
    from stepwhy.result.edits import Edit


# Kernels that run beside copies or exchanges take up to this much longer than alone. Measured over
# the recorded traces: 1.02 to 1.30 times, weighted by time.
_SLOWED_BESIDE = 0.3
# If the trace has no pinned copies to compare: how much faster than pageable ones they are at
# least, and bytes per second at best. PCIe 4.0 with 16 lanes carries 25e9; on an H100 with PCIe
# 5.0, 5.6e9 from pageable memory became 52e9.
_PINNED_FASTER = 1.5
_PINNED_AT_BEST = 25e9
_LARGE_BYTES = 1 << 20  # copies from which on their bandwidth counts, not their latency
_DIRECTIONS = {"h2d": Copy.H2D, "d2h": Copy.D2H, "peer": Copy.PEER, "d2d": Copy.D2D}


def change_copies(change: Change, edit: Edit) -> None:
    """Apply an edit of copies.

    Raises:
        NothingToChangeError: There are no such copies.
    """
    rows = work_of_kinds(change, edit, Kind.MEMCPY)
    slices, all_rows = change.facts.trace.slices, change.graph.nodes.rows
    direction = slices.copy[all_rows[rows]]
    wanted = _DIRECTIONS.get(edit.pattern)
    fits = direction == wanted if wanted is not None else direction != Copy.D2D
    rows = rows[fits]
    if edit.change == "pinned":
        rows = rows[slices.pageable[all_rows[rows]] == 1]
    if not len(rows):
        raise NothingToChangeError(f"The trace has no {edit.pattern or 'such'} copies to change")
    if edit.change == "overlapped":
        _move_beside(change, rows)
    elif edit.change == "bandwidth":
        size = slices.bytes[all_rows[rows]]
        known = rows[size > 0]
        at_rate = np.rint(size[size > 0] / (edit.bytes_per_s or 1) * 1e9).astype(np.int64)
        change.duration_ns[change.graph.nodes.first + known] = at_rate
        if len(known) < len(rows):
            change.note("Copies of unknown size keep their time.")
    elif edit.change == "pinned":
        _pin(change, rows)
    elif edit.change == "gone":
        remove_work(change, rows)
        change.lag_ns[waits_for(change, rows)] = NEVER_NS
    else:
        scale(change, rows, kept_share(edit))


def _pin(change: Change, rows: Rows) -> None:
    """Pinned copies run at the rate of the trace's own pinned copies, and do not block the host.

    At best they run beside the kernels as well: batches can be copied ahead.
    """
    slices, nodes = change.facts.trace.slices, change.graph.nodes
    kinds = slices.kind[nodes.rows]
    pinned = (kinds == Kind.MEMCPY) & (slices.pageable[nodes.rows] == 0)
    pinned &= slices.bytes[nodes.rows] >= _LARGE_BYTES
    pinned &= np.isin(slices.copy[nodes.rows], slices.copy[nodes.rows[rows]])
    if pinned.any():
        own = nodes.rows[pinned]
        _copy_at(change, rows, np.median(slices.bytes[own] / np.maximum(slices.dur_ns[own], 1)))
    elif change.best:
        _copy_at(change, rows, _PINNED_AT_BEST / 1e9)
    else:
        scale(change, rows, 1 / _PINNED_FASTER)
    if not pinned.any():
        change.note(
            "No pinned copy was recorded to compare with: they are assumed to be at least 1.5 "
            "times as fast, and at best to run at 25 GB/s."
        )
    if change.best:
        _move_beside(change, rows)
    change.lag_ns[waits_for(change, rows)] = NEVER_NS


def _copy_at(change: Change, rows: Rows, rate: float) -> None:
    """Copies of known size run at a rate, bytes per ns, if that is faster."""
    nodes = change.graph.nodes
    size, before = change.facts.trace.slices.bytes[nodes.rows[rows]], nodes.first + rows
    at_rate = np.rint(np.maximum(size, 0) / rate).astype(np.int64)
    change.duration_ns[before] = np.where(
        size > 0, np.minimum(at_rate, change.duration_ns[before]), change.duration_ns[before]
    )


def change_communication(change: Change, edit: Edit) -> None:
    """Apply an edit of exchanges.

    Raises:
        NothingToChangeError: There are none.
    """
    rows = work_of_kinds(change, edit, Kind.COLLECTIVE)
    nodes = change.graph.nodes
    duration_ns = change.duration_ns[nodes.first + rows]
    if edit.change == "overlapped":
        _move_beside(change, rows)
        return
    # A rank cannot tell how long it waited for the others in an exchange. Exchanges of one name and
    # size take as long as the shortest of them; the rest may be waiting.
    shortest = _shortest_of_kind(change, rows)
    own = duration_ns if change.best else np.minimum(shortest, duration_ns)
    if edit.change == "bucketed":
        own = _latency(change, rows) if change.best else np.zeros(len(rows), dtype=np.int64)
        change.duration_ns[nodes.first + rows] = np.maximum(duration_ns - own, 0)
    else:
        change.duration_ns[nodes.first + rows] = duration_ns - np.rint((1 - kept_share(edit)) * own)
    change.note(
        "One rank does not show how long it waited for the others: the low end of the gain assumes "
        "that the shortest exchange of each kind did not wait."
    )


def _shortest_of_kind(change: Change, rows: Rows) -> NDArray[np.int64]:
    slices, all_rows = change.facts.trace.slices, change.graph.nodes.rows[rows]
    _, kind = group_rows(slices.name[all_rows], slices.bytes[all_rows])
    shortest = np.full(kind.max(initial=-1) + 1, np.iinfo(np.int64).max)
    np.minimum.at(shortest, kind, slices.dur_ns[all_rows].astype(np.int64))
    return shortest[kind]


def _latency(change: Change, rows: Rows) -> NDArray[np.int64]:
    """What each exchange but the first of a step saves in a common bucket: the shortest of all."""
    graph = change.graph
    duration_ns = change.duration_ns[graph.nodes.first + rows]
    step = graph.step[rows]
    saved = np.full(len(rows), int(duration_ns.min()))
    saved[np.append(True, step[1:] != step[:-1])] = 0
    return saved


def _move_beside(change: Change, rows: Rows) -> None:
    """Work that runs beside the kernels: they do not wait for it, but may become slower."""
    nodes = change.graph.nodes
    steady = change.facts.is_steady[nodes.rows[rows]]
    beside = change.graph.mean_ns(float(change.duration_ns[nodes.first + rows][steady].sum()))
    change.duration_ns[nodes.first + rows] = 0
    change.delay_ns[nodes.first + rows] = 0
    change.lag_ns[waits_for(change, rows)] = NEVER_NS
    change.floor_ns = max(change.floor_ns, beside)
    change.slowed_ns += _SLOWED_BESIDE * beside
    change.note("Kernels may take up to 30 % longer beside copies or exchanges.")
