"""Adds the tables of an nvprof database to a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.read.formats.nvprof.calls import DRIVER_CALLS, RUNTIME_CALLS
from stepwhy.read.kernel_names import qualified_name
from stepwhy.read.shared.chrome_json import count_untimed
from stepwhy.read.shared.cuda import COPY_KINDS, copy_direction
from stepwhy.read.shared.cuda_activity import TIMES, each, known
from stepwhy.read.shared.cuda_ranges import NvtxRanges, add_ranges
from stepwhy.read.shared.database import ABSENT, Rows
from stepwhy.trace import NULL, Copy, DeviceKind, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from stepwhy.read.shared.cuda_activity import CudaActivity

    Strings = dict[int, str]

_PREFIX = "CUPTI_ACTIVITY_KIND_"
_PLACE = (*TIMES, "deviceId", "streamId", "correlationId")
_KERNELS = ("KERNEL", "CONCURRENT_KERNEL", "CDP_KERNEL")
_APIS = (("RUNTIME", RUNTIME_CALLS), ("DRIVER", DRIVER_CALLS))
# CUpti_ActivityMemoryKind.
_PAGEABLE, _PINNED = 1, 2
# CUpti_ActivityFlag of markers: the beginning and the end of a range.
_BEGIN, _END = 1 << 1, 1 << 2
# CUpti_ActivityObjectKind, whose bytes begin with the process and the thread.
_THREAD = 2
# CUpti_ActivityOverheadKind.
_INSTRUMENTATION = 2 << 16
_OVERHEADS = {
    1: (Kind.COMPILE, "driver compiler"),
    1 << 16: (Kind.PROFILER, "buffer flush"),
    _INSTRUMENTATION: (Kind.PROFILER, "instrumentation"),
    3 << 16: (Kind.PROFILER, "resource set-up"),
    4 << 16: (Kind.COMPILE, "module loading"),
    5 << 16: (Kind.COMPILE, "lazy function loading"),
}
# The profiler's instrumentation is cut from a call if it is at least this long, ns, and more than
# half of the call.
_LEAST_INSTRUMENTED_NS = 1_000_000


def add_host_activity(activity: CudaActivity, strings: Strings) -> None:
    """Add calls of the API, ranges and overhead."""
    instrumentation = _add_overhead(activity)
    for table, names in _APIS:
        _add_calls(activity, table, names, instrumentation)
    _add_ranges(activity, strings)


def add_device_activity(activity: CudaActivity, strings: Strings) -> None:
    """Add kernels, copies and fills."""
    models = activity.database.read(f"{_PREFIX}DEVICE", ("id", "name"))
    named = zip(models["id"].tolist(), models["name"].tolist(), strict=True)
    streams = _Streams(activity, {i: strings.get(name, "") for i, name in named})
    for table in _KERNELS:
        _add_kernels(activity, streams, table, strings)
    for table in ("MEMCPY", "MEMCPY2"):
        columns = ("bytes", "copyKind", "srcKind", "dstKind", "srcDeviceId", "dstDeviceId")
        for copies in _chunks(activity, table, *columns):
            activity.add_copies(copies, _directions(copies), _is_pageable, **streams.place(copies))
    for fills in _chunks(activity, "MEMSET", "bytes"):
        activity.add_fills(fills, **streams.place(fills))
    _add_waits(activity, streams)


class _Streams:
    """Streams of the only process of a database.

    Args:
        activity: Receives devices and tracks.
        models: Models of the devices by their numbers.
    """

    def __init__(self, activity: CudaActivity, models: dict[int, str]) -> None:
        self._activity = activity
        self._models = models
        processes = activity.database.read(f"{_PREFIX}RUNTIME", ("processId",))["processId"]
        processes = np.unique(processes)
        self._process = int(processes[0]) if len(processes) == 1 else NULL

    def place(self, rows: Rows) -> dict[str, NDArray[np.int64]]:
        """Track and correlation of device activity; (rows,) each."""
        process = np.full(len(rows), self._process, dtype=np.int64)
        device = each(self._device, rows["deviceId"])
        track = self._activity.streams(process, device, rows["streamId"])
        return {"track": track, "correlation": known(rows["correlationId"])}

    def _device(self, number: int) -> int:
        name = f"GPU:{max(number, 0)}"
        return self._activity.builder.device(name, DeviceKind.GPU, self._models.get(number, ""))


# --- devices -----------------------------------------------------------------------------------


def _chunks(activity: CudaActivity, table: str, *columns: str) -> Iterator[Rows]:
    """The records of a table of device activity, in chunks."""
    return activity.timed_chunks(f"{_PREFIX}{table}", (*_PLACE, *columns), on_device=True)


def _add_kernels(activity: CudaActivity, streams: _Streams, table: str, strings: Strings) -> None:
    def name(number: int) -> str:
        return qualified_name(strings.get(number, "")) or "unknown kernel"

    for kernels in _chunks(activity, table, "name"):
        activity.add_kernels(kernels, [kernels["name"]], name, **streams.place(kernels))


def _add_waits(activity: CudaActivity, streams: _Streams) -> None:
    contexts = activity.database.read(f"{_PREFIX}CONTEXT", ("contextId", "deviceId"))
    devices = dict(zip(contexts["contextId"].tolist(), contexts["deviceId"].tolist(), strict=True))

    def tracks(rows: Rows) -> NDArray[np.int64]:
        device = each(lambda context: devices.get(context, ABSENT), rows["contextId"])
        return streams.place(rows.with_columns(deviceId=device))["track"]

    columns = (*TIMES, "type", "contextId", "streamId", "correlationId")
    for rows in activity.timed_chunks(f"{_PREFIX}SYNCHRONIZATION", columns):
        activity.add_waits(rows, rows["type"], known(rows["correlationId"]), tracks)


def _directions(copies: Rows) -> NDArray[np.int64]:
    """The `Copy` of each; (rows,)."""
    directions = each(lambda k: int(copy_direction(COPY_KINDS.get(k, ""))), copies["copyKind"])
    peer = (copies["srcDeviceId"] != ABSENT) & (copies["srcDeviceId"] != copies["dstDeviceId"])
    return np.where(peer, int(Copy.PEER), directions)


def _is_pageable(kind: int) -> int:
    """Whether a kind of memory is pageable; NULL if unknown."""
    return {_PAGEABLE: 1, _PINNED: 0}.get(kind, NULL)


# --- host --------------------------------------------------------------------------------------


def _add_calls(
    activity: CudaActivity, table: str, names: dict[int, str], instrumentation: Rows
) -> None:
    columns = (*TIMES, "cbid", "processId", "threadId", "correlationId")
    excluded = _Instrumentation(instrumentation)
    instrumented = 0
    for calls in activity.timed_chunks(f"{_PREFIX}{table}", columns):
        starts = excluded.starts(calls)
        instrumented += int((starts != calls["start"]).sum())
        # Thread ids as unsigned 32-bit numbers, as in markers.
        threads = np.where(calls["threadId"] == ABSENT, NULL, calls["threadId"] & 0xFFFFFFFF)
        activity.add_calls(
            calls.with_columns(start=starts),
            calls["cbid"],
            names,
            track=activity.threads(calls["processId"], threads),
            correlation=known(calls["correlationId"]),
        )
    activity.health.count(
        "call-instrumented",
        "info",
        "Calls in which the profiler instrumented kernels begin when it had finished.",
        count=instrumented,
        dropped=False,
    )


def _add_overhead(activity: CudaActivity) -> Rows:
    """Add the overhead of the profiler; returns its instrumentation of kernels."""
    columns = (*TIMES, "overheadKind", "objectKind")
    overhead = activity.read(f"{_PREFIX}OVERHEAD", columns, blobs=("objectId",))
    overhead = activity.timed(overhead)
    process, thread = _owners(overhead)
    other = (Kind.PROFILER, "overhead")
    activity.add(
        overhead,
        track=activity.threads(process, thread),
        name=activity.names(overhead["overheadKind"], lambda k: _OVERHEADS.get(k, other)[1]),
        kind=each(lambda k: int(_OVERHEADS.get(k, other)[0]), overhead["overheadKind"]),
    )
    return overhead.where(overhead["overheadKind"] == _INSTRUMENTATION)


class _Instrumentation:
    """Times in which the profiler instrumented kernels.

    It does so inside of the first launch of a kernel. It can take seconds, in which the program
    would not have waited without the profiler.

    Args:
        records: The records of these times.
    """

    def __init__(self, records: Rows) -> None:
        order = np.argsort(records["start"], kind="stable")
        self._start, self._end = records["start"][order], records["end"][order]
        self._sum = np.concatenate([[0], np.cumsum(self._end - self._start)])

    def starts(self, calls: Rows) -> NDArray[np.int64]:
        """Starts of calls, moved behind the instrumentation inside of them; (rows,)."""
        first = np.searchsorted(self._start, calls["start"])
        behind = np.maximum(np.searchsorted(self._end, calls["end"], side="right"), first)
        inside = self._sum[behind] - self._sum[first]
        mostly = (inside >= _LEAST_INSTRUMENTED_NS) & (2 * inside > calls["end"] - calls["start"])
        last_end = np.append(self._end, 0)[behind - 1]
        return np.where(mostly, last_end, calls["start"])


def _add_ranges(activity: CudaActivity, strings: Strings) -> None:
    """Add NVTX ranges from the records of their begins and ends."""
    columns = ("flags", "timestamp", "id", "objectKind", "name", "domain")
    markers = activity.read(f"{_PREFIX}MARKER", columns, blobs=("objectId",))
    begins = markers.where((markers["flags"] & _BEGIN) != 0)
    ends = markers.where(((markers["flags"] & _END) != 0) & ((markers["flags"] & _BEGIN) == 0))
    activity.health.count(
        "nvtx-instant",
        "info",
        "Marks carry no time.",
        count=len(markers) - len(begins) - len(ends),
        dropped=True,
    )

    def ranges(rows: Rows) -> NvtxRanges:
        texts = [strings.get(i, "") for i in rows["name"].tolist()]
        domains = [strings.get(i, "") if i else "" for i in rows["domain"].tolist()]
        return NvtxRanges(rows, texts, domains, activity.threads(*_owners(rows)))

    add_ranges(activity, map(ranges, _paired(activity, begins, ends).chunks()))


def _paired(activity: CudaActivity, begins: Rows, ends: Rows) -> Rows:
    """Ranges whose begin and end were both recorded; each is of two records."""
    _, begun, ended = np.intersect1d(begins["id"], ends["id"], return_indices=True)
    times = {"start": begins["timestamp"][begun], "end": ends["timestamp"][ended]}
    ranges = begins.take(begun).with_columns(**times)
    activity.health.count(
        "range-not-closed",
        "info",
        "Ranges of which only the begin or the end was recorded.",
        count=len(begins) + len(ends) - 2 * len(ranges),
        dropped=True,
    )
    usable = activity.timed(ranges)
    activity.health.events_kept += len(usable)
    count_untimed(activity.health, len(ranges) - len(usable))
    return usable


def _owners(table: Rows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Process and thread of each record, NULL for records of no thread; (rows,) each."""
    is_thread = table["objectKind"] == _THREAD
    texts = table.texts["objectId"]
    owner_of = {text: _two_numbers(text) for text in set(texts)}
    numbers = np.asarray([owner_of[text] for text in texts], dtype=np.int64).reshape(-1, 2)
    return numbers[:, 0], np.where(is_thread, numbers[:, 1], NULL)


def _two_numbers(digits: str) -> tuple[int, int]:
    """The first two 32-bit numbers of some bytes."""
    raw = bytes.fromhex(digits)
    if len(raw) < 8:
        return NULL, NULL
    return int.from_bytes(raw[:4], "little"), int.from_bytes(raw[4:8], "little")
