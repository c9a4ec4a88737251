"""What each device did when: disjoint sets of time, and totals over the whole file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from stepwhy.columns.chunks import chunks, joined
from stepwhy.columns.growing import collected
from stepwhy.columns.intervals import Intervals, Union
from stepwhy.columns.nesting import innermost_time, inside
from stepwhy.columns.sums import LARGEST, total_of
from stepwhy.passes.selection import chosen, mask, of_role
from stepwhy.trace import NULL, Copy, DeviceKind, Kind, Role, among

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from stepwhy.columns.nesting import Nesting
    from stepwhy.trace import Trace

    AnyRows = NDArray[np.signedinteger[Any]]

HOST_DEVICE = -1
"""Index of the device that stands for the host where a CPU-only trace names none."""
OTHER_DEVICES = -2
"""Index of the device that stands for all beyond `MOST_DEVICES`."""
MOST_DEVICES = 4096
"""Devices that are shown one by one, more than jobs have whose files hold all ranks.

Each takes about a millisecond. The others count together as one, so that the breakdown of the step
and all totals are those of all devices.
"""
FEW_DEVICES = 64
"""Up to so many devices, one after the other is looked for in the whole trace."""


class Activity(msgspec.Struct, frozen=True):
    """When one device did what. The sets of one device may overlap; categories decide later.

    Args:
        index: Row of `devices`, HOST_DEVICE or OTHER_DEVICES.
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
    return union_of(trace, (rows[part] for part in chunks(len(rows))))


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
    work = _work_of_devices(trace)
    is_cpu = trace.devices.kind == DeviceKind.CPU
    accelerators = [index for index in work if not is_cpu[index]]
    cpus = [index for index in work if is_cpu[index]]
    if work and (accelerators or not trace.meta.device_expected):
        first = _shown(trace, accelerators, work, MOST_DEVICES)
        return first + _shown(trace, cpus, work, MOST_DEVICES - len(first))
    if trace.meta.device_expected or trace.meta.limit:
        return []
    host = _host_activity(trace, nesting)
    return [host] if len(host.rows) else []


# What a device does, as the sets of an `Activity`; a copy within the device counts as a fill.
_WORK = ((Kind.KERNEL, Kind.MEMSET), (Kind.COLLECTIVE,), (Kind.MEMCPY,))


def _work_of_devices(trace: Trace) -> dict[int, AnyRows]:
    """The slices that are work of each device that has any, ascending; by row of `devices`."""
    of_devices = of_role(trace, Role.STREAM, Role.EXECUTOR) & (trace.tracks.device != NULL)
    kinds: tuple[Kind, ...] = sum(_WORK, ())
    if len(trace.devices) <= FEW_DEVICES:  # less memory
        found = {
            index: collected(chosen(trace, kinds, of_devices & (trace.tracks.device == index)))
            for index in range(len(trace.devices))
        }
        return {index: rows for index, rows in found.items() if len(rows)}
    rows = collected(chosen(trace, kinds, of_devices))
    device = trace.tracks.device[trace.slices.track[rows]]
    order = np.argsort(device, kind="stable")
    rows, device = rows[order], device[order]
    first = np.flatnonzero(np.diff(device, prepend=NULL))
    return dict(zip(device[first].tolist(), np.split(rows, first[1:]), strict=True))


def _shown(trace: Trace, indexes: list[int], work: dict[int, AnyRows], most: int) -> list[Activity]:
    """Activity of each of some devices; of more than so many, the last ones are shown as one."""
    if len(indexes) <= max(most, 1):
        return [_activity(trace, index, work[index]) for index in indexes]
    alone, others = indexes[: max(most - 1, 0)], indexes[max(most - 1, 0) :]
    rows = np.sort(np.concatenate([work[index] for index in others]))
    kind = DeviceKind(int(trace.devices.kind[others[0]]))
    name = f"{len(others):,} other devices"
    return [
        *(_activity(trace, index, work[index]) for index in alone),
        Activity(OTHER_DEVICES, name, kind, *_sets(trace, rows), rows),
    ]


def _activity(trace: Trace, index: int, rows: AnyRows) -> Activity:
    name = trace.string(int(trace.devices.name[index]))
    kind = DeviceKind(int(trace.devices.kind[index]))
    return Activity(index, name, kind, *_sets(trace, rows), rows)


def _sets(trace: Trace, work: AnyRows) -> tuple[Intervals, Intervals, Intervals]:
    """When some work computes, communicates and copies."""
    slices, unions = trace.slices, (Union(), Union(), Union())
    for rows in (work[part] for part in chunks(len(work))):
        within = (slices.kind[rows] == Kind.MEMCPY) & (slices.copy[rows] == Copy.D2D)
        kinds = np.where(within, Kind.MEMSET, slices.kind[rows])
        for wanted, union in zip(_WORK, unions, strict=True):
            some = rows[among(kinds, wanted)]
            union.add(slices.start_ns[some], trace.ends(some))
    compute, communication, transfer = unions
    return compute.done(), communication.done(), transfer.done()


def _host_activity(trace: Trace, nesting: Nesting) -> Activity:
    """The host as its own device: operations compute, unless they prepare the next batch.

    Operations inside compilation only propagate shapes, those inside a checkpoint copy for it.

    An operation computes while it is innermost: the kernel of `aten::mm` runs in `aten::mm`
    itself, beside small operations that it calls.
    """
    host = of_role(trace, Role.HOST_THREAD)
    computes = inside(nesting, mask(trace, (Kind.INPUT, Kind.COMPILE, Kind.STORAGE)))
    np.logical_not(computes, out=computes)
    computes &= mask(trace, (Kind.OP,), host)
    compute = innermost_time(nesting, computes)
    communication = union_of(trace, chosen(trace, (Kind.COLLECTIVE,), host))
    computes |= mask(trace, (Kind.COLLECTIVE,), host)
    busy = (np.flatnonzero(computes[part]) + part.start for part in chunks(len(computes)))
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
    for part in chunks(len(rows)):
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

    pieces = (rows[part] for part in chunks(len(rows)))
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
