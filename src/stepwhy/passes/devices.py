"""What each device did when: disjoint sets of time, and totals over the whole file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.passes.intervals import Intervals
from stepwhy.passes.nesting import innermost_time, under
from stepwhy.passes.sums import total_of
from stepwhy.trace import NULL, Copy, DeviceKind, Kind, Role, among

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.passes.nesting import Nesting
    from stepwhy.trace import Trace

# Slices that are joined at a time.
_PIECE = 1 << 16
HOST_DEVICE = -1
"""Index of the device that stands for the host where a CPU-only trace names none."""


class Activity(msgspec.Struct, frozen=True):
    """When one device did what. The sets of one device may overlap; categories decide later.

    Args:
        index: Row of `devices`, or HOST_DEVICE.
        name: Its name.
        kind: What it is.
        compute: Kernels and fills; on a CPU innermost operations outside the input region.
        communication: Collectives and peer exchanges.
        transfer: Copies.
        rows: The slices behind them, ascending; (slices,).
    """

    index: int
    name: str
    kind: DeviceKind
    compute: Intervals
    communication: Intervals
    transfer: Intervals
    rows: NDArray[np.int64]

    @property
    def busy(self) -> Intervals:
        """Whenever it did anything."""
        return self.compute | self.communication | self.transfer


def intervals_of(trace: Trace, rows: NDArray[np.int64]) -> Intervals:
    """The union of some slices."""
    if len(rows) <= _PIECE:
        return Intervals.of(trace.slices.start_ns[rows], trace.ends(rows))
    pieces = (rows[first : first + _PIECE] for first in range(0, len(rows), _PIECE))
    return Intervals.union([intervals_of(trace, piece) for piece in pieces])


def find_activities(trace: Trace, nesting: Nesting, in_input: NDArray[np.bool_]) -> list[Activity]:
    """Activity of every device with work; on a CPU-only trace without devices, of the host.

    Args:
        trace: The trace.
        nesting: Its call trees.
        in_input: Whether each slice lies in the input region; (slices,).
    """
    found = [_activity(trace, int(i)) for i in range(len(trace.devices))]
    found = [a for a in found if len(a.rows)]
    accelerators = [a for a in found if a.kind is not DeviceKind.CPU]
    if found and (accelerators or not trace.meta.device_expected):
        return accelerators + [a for a in found if a.kind is DeviceKind.CPU]
    if trace.meta.device_expected or trace.meta.limit:
        return []
    host = _host_activity(trace, nesting, in_input)
    return [host] if len(host.rows) else []


def _activity(trace: Trace, index: int) -> Activity:
    slices = trace.slices
    on_device = np.isin(trace.tracks.role, [int(Role.STREAM), int(Role.EXECUTOR)])
    on_device &= trace.tracks.device == index
    mine = np.flatnonzero(on_device[slices.track]) if len(slices) else np.empty(0, dtype=np.int64)
    return _sorted_by_kind(
        trace,
        index,
        trace.string(int(trace.devices.name[index])),
        DeviceKind(int(trace.devices.kind[index])),
        mine,
    )


def _sorted_by_kind(
    trace: Trace, index: int, name: str, kind: DeviceKind, rows: NDArray[np.int64]
) -> Activity:
    kinds = trace.slices.kind[rows]

    def of(*wanted: Kind) -> NDArray[np.int64]:
        return rows[among(kinds, wanted)]

    busy = of(Kind.KERNEL, Kind.MEMSET, Kind.COLLECTIVE, Kind.MEMCPY)
    return Activity(
        index,
        name,
        kind,
        intervals_of(trace, of(Kind.KERNEL, Kind.MEMSET)),
        intervals_of(trace, of(Kind.COLLECTIVE)),
        intervals_of(trace, of(Kind.MEMCPY)),
        busy,
    )


def _host_activity(trace: Trace, nesting: Nesting, in_input: NDArray[np.bool_]) -> Activity:
    """The host as its own device: operations compute, unless they prepare the next batch.

    Operations inside compilation only propagate shapes, those inside a checkpoint copy for it.

    An operation computes while it is innermost: the kernel of `aten::mm` runs in `aten::mm`
    itself, beside small operations that it calls.
    """
    slices = trace.slices
    host = trace.tracks.role[slices.track] == Role.HOST_THREAD if len(slices) else in_input
    computes = host & (slices.kind == Kind.OP) & ~in_input
    computes &= ~under(trace, nesting, Kind.COMPILE, Kind.STORAGE)
    compute = innermost_time(trace, nesting, computes)
    collectives = trace.rows(Kind.COLLECTIVE, role=Role.HOST_THREAD)
    return Activity(
        HOST_DEVICE,
        "CPU",
        DeviceKind.CPU,
        compute,
        intervals_of(trace, collectives),
        Intervals.empty(),
        np.sort(np.concatenate([np.flatnonzero(computes), collectives])),
    )


class Totals(msgspec.Struct, frozen=True):
    """One device over the whole file; times in ns, `kernel_ns` is a sum, the others unions.

    Where whole passes were timed, nothing is known of the kernels in them.
    """

    name: str
    busy_ns: int
    kernel_ns: int | None
    communication_ns: int
    exposed_communication_ns: int
    h2d_ns: int
    h2d_bytes: int | None
    d2h_ns: int
    d2h_bytes: int | None
    kernels: int | None


def total(trace: Trace, activity: Activity) -> Totals:
    """Totals of one device over the whole file."""
    slices, rows = trace.slices, activity.rows
    kernels = rows[among(slices.kind[rows], (Kind.KERNEL, Kind.COLLECTIVE))]
    h2d, d2h = (copies_of(trace, rows, c) for c in (Copy.H2D, Copy.D2H))
    are_kernels = "passes" not in trace.meta.signals
    return Totals(
        name=activity.name,
        busy_ns=activity.busy.total_ns,
        kernel_ns=total_of(slices.dur_ns[kernels]) if are_kernels else None,
        communication_ns=activity.communication.total_ns,
        exposed_communication_ns=(activity.communication - activity.compute).total_ns,
        h2d_ns=intervals_of(trace, h2d).total_ns,
        h2d_bytes=known_bytes(trace, h2d),
        d2h_ns=intervals_of(trace, d2h).total_ns,
        d2h_bytes=known_bytes(trace, d2h),
        kernels=len(kernels) if are_kernels else None,
    )


def copies_of(trace: Trace, rows: NDArray[np.int64], direction: Copy) -> NDArray[np.int64]:
    """Those of the rows that are copies in one direction."""
    slices = trace.slices
    chosen: NDArray[np.int64] = rows[
        (slices.kind[rows] == Kind.MEMCPY) & (slices.copy[rows] == direction)
    ]
    return chosen


def known_bytes(trace: Trace, rows: NDArray[np.int64]) -> int | None:
    """Sum of the bytes of some copies; None when none of them records its size.

    Where whole passes were timed, copies in them are not recorded, and none is not zero.
    """
    if "passes" in trace.meta.signals:
        return None
    sizes = trace.slices.bytes[rows]
    if len(rows) and (sizes == NULL).all():
        return None
    return total_of(sizes[sizes != NULL])
