"""Activity of each device: sets of time, and totals over the whole file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from stepwhy.analyse.activity.selection import mask, of_role, rows_of
from stepwhy.base.columns.groups import by_code, numbered
from stepwhy.base.columns.intervals import Intervals
from stepwhy.base.columns.nesting import innermost_time, inside
from stepwhy.base.columns.sums import total_of
from stepwhy.base.patterns import regex
from stepwhy.trace import NULL, Copy, DeviceKind, Kind, Role, among

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.base.columns.nesting import Nesting
    from stepwhy.trace import Trace

    AnyRows = NDArray[np.signedinteger[Any]]

HOST_DEVICE = -1
"""Index of the host as a device, if a CPU-only trace names no device."""
OTHER_DEVICES = -2
"""Index of the device that combines all devices beyond `MOST_DEVICES`."""
MOST_DEVICES = 4096
"""Most devices that are listed separately. Jobs with all ranks in one file have fewer.

Each takes about a millisecond to analyse. The others are combined into one, so that the breakdown
of the step and all totals still cover all devices.
"""


_COMPILED_CALL = regex(r"## Call CompiledFxGraph ")


class Activity(msgspec.Struct, frozen=True):
    """Sets of time in which one device was active; they may overlap until the breakdown.

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
        """All time in which it was active."""
        return self.compute | self.communication | self.transfer


def intervals_of(trace: Trace, rows: AnyRows) -> Intervals:
    """The union of some slices."""
    return Intervals.of_slices(trace.slices.start_ns, trace.slices.dur_ns, rows)


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


# Kinds of work in each set of an `Activity`; a copy within the device counts as a fill.
_WORK = ((Kind.KERNEL, Kind.MEMSET), (Kind.COLLECTIVE,), (Kind.MEMCPY,))


def _work_of_devices(trace: Trace) -> dict[int, AnyRows]:
    """Rows of the work of each device that has any, ascending; by row of `devices`."""
    of_devices = of_role(trace, Role.STREAM, Role.EXECUTOR) & (trace.tracks.device != NULL)
    rows = rows_of(trace, sum(_WORK, ()), of_devices).astype(np.int32)
    devices, device = numbered(trace.tracks.device[trace.slices.track[rows]])
    if len(devices) == 1:
        return {int(devices[0]): rows}
    order, _ = by_code(device)
    ends = np.cumsum(np.bincount(device))
    return dict(zip(devices.tolist(), np.split(rows[order], ends[:-1]), strict=False))


def _shown(trace: Trace, indexes: list[int], work: dict[int, AnyRows], most: int) -> list[Activity]:
    """Activity of each device; if there are more than `most`, the last ones are combined."""
    if len(indexes) <= max(most, 1):
        return [_activity(trace, index, work[index]) for index in indexes]
    single, others = indexes[: max(most - 1, 0)], indexes[max(most - 1, 0) :]
    rows = np.sort(np.concatenate([work[index] for index in others]))
    kind = DeviceKind(int(trace.devices.kind[others[0]]))
    name = f"{len(others):,} other devices"
    return [
        *(_activity(trace, index, work[index]) for index in single),
        Activity(OTHER_DEVICES, name, kind, *_sets(trace, rows), rows),
    ]


def _activity(trace: Trace, index: int, rows: AnyRows) -> Activity:
    name = trace.string(int(trace.devices.name[index]))
    kind = DeviceKind(int(trace.devices.kind[index]))
    return Activity(index, name, kind, *_sets(trace, rows), rows)


def _sets(trace: Trace, work: AnyRows) -> tuple[Intervals, Intervals, Intervals]:
    """Sets of time in which some work computes, communicates and copies."""
    kinds = _kinds_of_work(trace, work)
    compute, communication, transfer = (
        intervals_of(trace, work[among(kinds, members)]) for members in _WORK
    )
    return compute, communication, transfer


def computes(trace: Trace, work: AnyRows) -> NDArray[np.bool_]:
    """Whether each row of work of devices computes, rather than communicates or copies; (rows,)."""
    return among(_kinds_of_work(trace, work), _WORK[0])


def _kinds_of_work(trace: Trace, work: AnyRows) -> NDArray[np.integer[Any]]:
    """Kind of each row of work of devices, as `_WORK` sorts them; (rows,)."""
    kinds, copy = trace.slices.kind[work], trace.slices.copy[work]
    return np.where((kinds == Kind.MEMCPY) & (copy == Copy.D2D), Kind.MEMSET, kinds)


def _host_activity(trace: Trace, nesting: Nesting) -> Activity:
    """The host as its own device: operations compute, unless they prepare the next batch.

    Operations inside compilation only propagate shapes, and those in a checkpoint only copy.

    An operation computes while it is innermost: the kernel of `aten::mm` runs in `aten::mm`
    itself, beside small operations that it calls. Kernels that Inductor has compiled for a CPU have
    no records of their own, so that a call of a compiled graph computes, too.
    """
    host = of_role(trace, Role.HOST_THREAD)
    prepares = inside(nesting, mask(trace, (Kind.INPUT, Kind.COMPILE, Kind.STORAGE)))
    # Source: `CompiledFxGraph.__call__` in `torch/_inductor/output_code.py`.
    compiled_calls = mask(trace, (Kind.ANNOTATION,), host)
    rows = np.flatnonzero(compiled_calls)
    compiled_calls[rows] = trace.matches(trace.slices.name[rows], _COMPILED_CALL.match)
    computes = (mask(trace, (Kind.OP,), host) | compiled_calls) & ~prepares
    compute = innermost_time(nesting, computes)
    is_collective = mask(trace, (Kind.COLLECTIVE,), host)
    communication = intervals_of(trace, np.flatnonzero(is_collective))
    busy = np.flatnonzero(computes | is_collective)
    none = Intervals.empty()
    return Activity(HOST_DEVICE, "CPU", DeviceKind.CPU, compute, communication, none, busy)


class Totals(msgspec.Struct, frozen=True):
    """Totals of one device over the whole file. Times are unions, except for `kernel_ns`, a sum.

    If only whole passes were timed, the figures of kernels are None.
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
        kernel_ns=total_of(slices.dur_ns, kernels) if are_kernels else None,
        communication_ns=activity.communication.total_ns,
        exposed_communication_ns=(activity.communication - activity.compute).total_ns,
        h2d_ns=intervals_of(trace, h2d).total_ns,
        h2d_bytes=known_bytes(trace, h2d),
        d2h_ns=intervals_of(trace, d2h).total_ns,
        d2h_bytes=known_bytes(trace, d2h),
        kernels=len(kernels) if are_kernels else None,
    )


def copies_of(trace: Trace, rows: AnyRows, direction: Copy) -> AnyRows:
    """The rows that are copies in one direction."""
    copies = rows[trace.slices.kind[rows] == Kind.MEMCPY]
    found: AnyRows = copies[trace.slices.copy[copies] == direction]
    return found


def known_bytes(trace: Trace, rows: AnyRows) -> int | None:
    """Sum of the bytes of some copies; None if no size is recorded.

    Also None if only whole passes were timed, because the copies in them are not recorded.
    """
    if "passes" in trace.meta.signals:
        return None
    sizes = trace.slices.bytes[rows]
    if len(rows) and (sizes == NULL).all():
        return None
    return total_of(sizes[sizes != NULL])
