"""What each device did when: disjoint sets of time, and totals over the whole file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from stepwhy.passes.intervals import Intervals, Union
from stepwhy.passes.nesting import innermost_time, under
from stepwhy.passes.selection import chosen, collected, joined, mask, of_role, parts
from stepwhy.passes.sums import LARGEST, total_of
from stepwhy.trace import NULL, Copy, DeviceKind, Kind, Role, among

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from stepwhy.passes.nesting import Nesting
    from stepwhy.passes.selection import Rows, Tracks
    from stepwhy.trace import Trace

    AnyRows = NDArray[np.signedinteger[Any]]

HOST_DEVICE = -1
"""Index of the device that stands for the host where a CPU-only trace names none."""


class Activity(msgspec.Struct, frozen=True):
    """When one device did what. The sets of one device may overlap; categories decide later.

    Args:
        index: Row of `devices`, or HOST_DEVICE.
        name: Its name.
        kind: What it is.
        compute: Kernels, fills, and copies within the device; on a CPU innermost operations outside
            the input region.
        communication: Collectives and peer exchanges.
        transfer: Copies to and from other memory, and those whose direction is not recorded.
        rows: The slices behind them, ascending; (slices,).
    """

    index: int
    name: str
    kind: DeviceKind
    compute: Intervals
    communication: Intervals
    transfer: Intervals
    rows: AnyRows

    @property
    def busy(self) -> Intervals:
        """Whenever it did anything."""
        return self.compute | self.communication | self.transfer


def intervals_of(trace: Trace, rows: AnyRows) -> Intervals:
    """The union of some slices."""
    if (rows[1:] < rows[:-1]).any():
        rows = np.sort(rows)
    return union_of(trace, (rows[part] for part in parts(len(rows))))


def union_of(trace: Trace, pieces: Iterable[AnyRows]) -> Intervals:
    """The union of slices that come piece by piece, ascending."""
    return Intervals.ascending(times_of(trace, pieces))


def times_of(
    trace: Trace, pieces: Iterable[AnyRows]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Starts and ends of slices that come piece by piece, ns."""
    return ((trace.slices.start_ns[rows], trace.ends(rows)) for rows in pieces)


def find_activities(trace: Trace, nesting: Nesting) -> list[Activity]:
    """Activity of every device with work; on a CPU-only trace without devices, of the host.

    Args:
        trace: The trace.
        nesting: Its call trees.
    """
    found = [_activity(trace, int(i)) for i in range(len(trace.devices))]
    found = [a for a in found if len(a.rows)]
    accelerators = [a for a in found if a.kind is not DeviceKind.CPU]
    if found and (accelerators or not trace.meta.device_expected):
        return accelerators + [a for a in found if a.kind is DeviceKind.CPU]
    if trace.meta.device_expected or trace.meta.limit:
        return []
    host = _host_activity(trace, nesting)
    return [host] if len(host.rows) else []


# What a device does, as the sets of an `Activity`; a copy within the device counts as a fill.
_WORK = ((Kind.KERNEL, Kind.MEMSET), (Kind.COLLECTIVE,), (Kind.MEMCPY,))


def _activity(trace: Trace, index: int) -> Activity:
    tracks = of_role(trace, Role.STREAM, Role.EXECUTOR) & (trace.tracks.device == index)
    unions = [Union() for _ in _WORK]
    rows = collected(_sorted_by_kind(trace, tracks, unions))
    compute, communication, transfer = (union.done() for union in unions)
    name = trace.string(int(trace.devices.name[index]))
    kind = DeviceKind(int(trace.devices.kind[index]))
    return Activity(index, name, kind, compute, communication, transfer, rows)


def _sorted_by_kind(trace: Trace, tracks: Tracks, unions: list[Union]) -> Iterator[Rows]:
    """Work on some tracks, piece by piece, which is added to the union of its kind, too."""
    slices = trace.slices
    for rows in chosen(trace, sum(_WORK, ()), tracks) if tracks.any() else ():
        within = (slices.kind[rows] == Kind.MEMCPY) & (slices.copy[rows] == Copy.D2D)
        kinds = np.where(within, Kind.MEMSET, slices.kind[rows])
        for wanted, union in zip(_WORK, unions, strict=True):
            some = rows[among(kinds, wanted)]
            union.add(slices.start_ns[some], trace.ends(some))
        yield rows


def _host_activity(trace: Trace, nesting: Nesting) -> Activity:
    """The host as its own device: operations compute, unless they prepare the next batch.

    Operations inside compilation only propagate shapes, those inside a checkpoint copy for it.

    An operation computes while it is innermost: the kernel of `aten::mm` runs in `aten::mm`
    itself, beside small operations that it calls.
    """
    host = of_role(trace, Role.HOST_THREAD)
    computes = under(trace, nesting, Kind.INPUT, Kind.COMPILE, Kind.STORAGE)
    np.logical_not(computes, out=computes)
    computes &= mask(trace, (Kind.OP,), host)
    compute = innermost_time(trace, nesting, computes)
    communication = union_of(trace, chosen(trace, (Kind.COLLECTIVE,), host))
    computes |= mask(trace, (Kind.COLLECTIVE,), host)
    busy = (np.flatnonzero(computes[part]) + part.start for part in parts(len(computes)))
    return Activity(
        HOST_DEVICE,
        "CPU",
        DeviceKind.CPU,
        compute,
        communication,
        Intervals.empty(),
        collected(busy),
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
    count = kernel_ns = 0
    for part in parts(len(rows)):
        kernels = rows[part][among(slices.kind[rows[part]], (Kind.KERNEL, Kind.COLLECTIVE))]
        count += len(kernels)
        kernel_ns += total_of(slices.dur_ns[kernels])
    h2d, d2h = (copies_of(trace, rows, c) for c in (Copy.H2D, Copy.D2H))
    are_kernels = "passes" not in trace.meta.signals
    return Totals(
        name=activity.name,
        busy_ns=activity.busy.total_ns,
        kernel_ns=min(kernel_ns, LARGEST) if are_kernels else None,
        communication_ns=activity.communication.total_ns,
        exposed_communication_ns=(activity.communication - activity.compute).total_ns,
        h2d_ns=intervals_of(trace, h2d).total_ns,
        h2d_bytes=known_bytes(trace, h2d),
        d2h_ns=intervals_of(trace, d2h).total_ns,
        d2h_bytes=known_bytes(trace, d2h),
        kernels=count if are_kernels else None,
    )


def copies_of(trace: Trace, rows: AnyRows, direction: Copy) -> AnyRows:
    """Those of the rows that are copies in one direction."""
    slices = trace.slices

    pieces = (rows[part] for part in parts(len(rows)))
    copies = (some[slices.kind[some] == Kind.MEMCPY] for some in pieces)
    return joined((some[slices.copy[some] == direction] for some in copies), rows[:0])


def known_bytes(trace: Trace, rows: AnyRows) -> int | None:
    """Sum of the bytes of some copies; None when none of them records its size.

    Where whole passes were timed, copies in them are not recorded, and none is not zero.
    """
    if "passes" in trace.meta.signals:
        return None
    sizes = trace.slices.bytes[rows]
    if len(rows) and (sizes == NULL).all():
        return None
    return total_of(sizes[sizes != NULL])
