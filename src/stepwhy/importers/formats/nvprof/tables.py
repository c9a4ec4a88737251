"""Tables of an nvprof database to slices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.importers.formats.nvprof.calls import DRIVER_CALLS, RUNTIME_CALLS
from stepwhy.importers.shared.chrome_json import count_untimed
from stepwhy.importers.shared.cuda import COPY_KINDS, copy_direction, kernel_kind, qualified_name
from stepwhy.importers.shared.cuda_ranges import Described, add_ranges
from stepwhy.importers.shared.cuda_rows import TIMES, each, known
from stepwhy.importers.shared.database import ABSENT, Rows
from stepwhy.trace import NULL, Copy, DeviceKind, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from stepwhy.importers.shared.cuda_rows import CudaRows

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
# A call of which the profiler took at least this long (ns) and more than half is the profiler's.
_LEAST_INSTRUMENTED_NS = 1_000_000


def add_host_activity(rows: CudaRows, strings: Strings) -> None:
    """Add calls of the API, ranges and overhead."""
    overhead = _add_overhead(rows)
    for table, names in _APIS:
        _add_calls(rows, table, names, overhead)
    _add_ranges(rows, strings)
    rows.leave_out(
        f"{_PREFIX}SYNCHRONIZATION",
        "synchronisation-record",
        "Records of synchronisations repeat what the calls of the API say.",
    )


def add_device_activity(rows: CudaRows, strings: Strings) -> None:
    """Add kernels, copies and fills."""
    models = rows.database.read(f"{_PREFIX}DEVICE", ("id", "name"))
    named = zip(models["id"].tolist(), models["name"].tolist(), strict=True)
    places = _Places(rows, {i: strings.get(name, "") for i, name in named})
    for table in _KERNELS:
        _add_kernels(rows, places, table, strings)
    for table in ("MEMCPY", "MEMCPY2"):
        _add_copies(rows, places, table)
    _add_fills(rows, places)


class _Places:
    """Streams of the database's one process.

    Args:
        rows: Takes devices and tracks.
        models: Models of the devices by their numbers.
    """

    def __init__(self, rows: CudaRows, models: dict[int, str]) -> None:
        self._rows = rows
        self._models = models
        processes = rows.database.read(f"{_PREFIX}RUNTIME", ("processId",))["processId"]
        processes = np.unique(processes)
        self._process = int(processes[0]) if len(processes) == 1 else NULL

    def streams(self, table: Rows) -> NDArray[np.int64]:
        """Tracks of the streams; (rows,)."""
        process = np.full(len(table), self._process, dtype=np.int64)
        return self._rows.streams(process, each(self._device, table["deviceId"]), table["streamId"])

    def _device(self, number: int) -> int:
        name = f"GPU:{max(number, 0)}"
        return self._rows.builder.device(name, DeviceKind.GPU, self._models.get(number, ""))


# --- devices -----------------------------------------------------------------------------------


def _pieces(rows: CudaRows, table: str, *columns: str) -> Iterator[Rows]:
    return rows.pieces(f"{_PREFIX}{table}", (*_PLACE, *columns), on_device=True)


def _add_kernels(rows: CudaRows, places: _Places, table: str, strings: Strings) -> None:
    def name(number: int) -> str:
        return qualified_name(strings.get(number, "")) or "unknown kernel"

    for kernels in _pieces(rows, table, "name"):
        rows.add(
            kernels,
            track=places.streams(kernels),
            name=rows.names(kernels["name"], name),
            kind=each(lambda i: int(kernel_kind(name(i))), kernels["name"]),
            correlation=known(kernels["correlationId"]),
        )


def _add_copies(rows: CudaRows, places: _Places, table: str) -> None:
    columns = ("bytes", "copyKind", "srcKind", "dstKind", "srcDeviceId", "dstDeviceId")
    for copies in _pieces(rows, table, *columns):
        directions = _directions(copies)
        rows.add_copies(
            copies,
            directions,
            _pageable(copies, directions),
            track=places.streams(copies),
            correlation=known(copies["correlationId"]),
        )


def _directions(copies: Rows) -> NDArray[np.int64]:
    """The `Copy` of each; (rows,)."""
    directions = each(lambda k: int(copy_direction(COPY_KINDS.get(k, ""))), copies["copyKind"])
    peer = (copies["srcDeviceId"] != ABSENT) & (copies["srcDeviceId"] != copies["dstDeviceId"])
    return np.where(peer, int(Copy.PEER), directions)


def _pageable(copies: Rows, directions: NDArray[np.int64]) -> NDArray[np.int64]:
    """Whether the host side of each copy is pageable memory, NULL where unknown; (rows,)."""
    host = np.where(directions == Copy.D2H, copies["dstKind"], copies["srcKind"])
    to_or_from_host = np.isin(directions, [int(Copy.H2D), int(Copy.D2H)])
    pageable = np.where(host == _PAGEABLE, 1, np.where(host == _PINNED, 0, NULL))
    return np.where(to_or_from_host, pageable, NULL)


def _add_fills(rows: CudaRows, places: _Places) -> None:
    for fills in _pieces(rows, "MEMSET", "bytes"):
        rows.add(
            fills,
            track=places.streams(fills),
            name=rows.intern("Memset"),
            kind=int(Kind.MEMSET),
            bytes=known(fills["bytes"]),
            correlation=known(fills["correlationId"]),
        )


# --- host --------------------------------------------------------------------------------------


def _add_calls(rows: CudaRows, table: str, names: dict[int, str], overhead: Rows) -> None:
    columns = (*TIMES, "cbid", "processId", "threadId", "correlationId")
    taken = _Taken(overhead)
    instrumented = 0
    for calls in rows.pieces(f"{_PREFIX}{table}", columns):
        begins = taken.begins(calls)
        instrumented += int((begins != calls["start"]).sum())
        rows.add_calls(
            calls.with_columns(start=begins),
            calls["cbid"],
            names,
            track=rows.threads(calls["processId"], _unsigned(calls["threadId"])),
            correlation=known(calls["correlationId"]),
        )
    rows.health.count(
        "call-instrumented",
        "info",
        "Calls in which the profiler instrumented kernels begin where it had finished.",
        count=instrumented,
        dropped=False,
    )


def _unsigned(threads: NDArray[np.int64]) -> NDArray[np.int64]:
    """Thread ids as 32 bits without a sign, as markers have them."""
    return np.where(threads == ABSENT, NULL, threads & 0xFFFFFFFF)


def _add_overhead(rows: CudaRows) -> Rows:
    """Add what the profiler took; its instrumentation of kernels is handed back."""
    columns = (*TIMES, "overheadKind", "objectKind")
    overhead = rows.read(f"{_PREFIX}OVERHEAD", columns, blobs=("objectId",))
    overhead = rows.timed(overhead)
    process, thread = _owners(overhead)
    other = (Kind.PROFILER, "overhead")
    rows.add(
        overhead,
        track=rows.threads(process, thread),
        name=rows.names(overhead["overheadKind"], lambda k: _OVERHEADS.get(k, other)[1]),
        kind=each(lambda k: int(_OVERHEADS.get(k, other)[0]), overhead["overheadKind"]),
    )
    return overhead.where(overhead["overheadKind"] == _INSTRUMENTATION)


class _Taken:
    """When the profiler instrumented kernels that were to be launched.

    It does so inside of the first launch, for seconds, and these are no seconds of the program.

    Args:
        overhead: These times.
    """

    def __init__(self, overhead: Rows) -> None:
        order = np.argsort(overhead["start"], kind="stable")
        self._start, self._end = overhead["start"][order], overhead["end"][order]
        self._sum = np.concatenate([[0], np.cumsum(self._end - self._start)])

    def begins(self, calls: Rows) -> NDArray[np.int64]:
        """Where calls begin without it; (rows,)."""
        first = np.searchsorted(self._start, calls["start"])
        behind = np.maximum(np.searchsorted(self._end, calls["end"], side="right"), first)
        inside = self._sum[behind] - self._sum[first]
        mostly = (inside >= _LEAST_INSTRUMENTED_NS) & (2 * inside > calls["end"] - calls["start"])
        last_end = np.append(self._end, 0)[behind - 1]
        return np.where(mostly, last_end, calls["start"])


def _add_ranges(rows: CudaRows, strings: Strings) -> None:
    """Add NVTX ranges from the records of their beginnings and ends."""
    columns = ("flags", "timestamp", "id", "objectKind", "name", "domain")
    markers = rows.read(f"{_PREFIX}MARKER", columns, blobs=("objectId",))
    begins = markers.where((markers["flags"] & _BEGIN) != 0)
    ends = markers.where(((markers["flags"] & _END) != 0) & ((markers["flags"] & _BEGIN) == 0))
    rows.health.count(
        "nvtx-instant",
        "info",
        "Marks carry no time.",
        count=len(markers) - len(begins) - len(ends),
        dropped=True,
    )

    def describe(some: Rows) -> Described:
        return Described(
            [strings.get(i, "") for i in some["name"].tolist()],
            [strings.get(i, "") if i else "" for i in some["domain"].tolist()],
            rows.threads(*_owners(some)),
        )

    add_ranges(rows, _paired(rows, begins, ends).pieces(), describe)


def _paired(rows: CudaRows, begins: Rows, ends: Rows) -> Rows:
    """Ranges whose beginning and end were both recorded; each is of two records."""
    _, begun, ended = np.intersect1d(begins["id"], ends["id"], return_indices=True)
    times = {"start": begins["timestamp"][begun], "end": ends["timestamp"][ended]}
    ranges = begins.take(begun).with_columns(**times)
    rows.health.count(
        "range-not-closed",
        "info",
        "Ranges of which only the beginning or the end was recorded.",
        count=len(begins) + len(ends) - 2 * len(ranges),
        dropped=True,
    )
    usable = rows.timed(ranges)
    rows.health.events_kept += len(usable)
    count_untimed(rows.health, len(ranges) - len(usable))
    return usable


def _owners(table: Rows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Process and thread of each record, NULL where it is of no thread; (rows,) each."""
    threads = table["objectKind"] == _THREAD
    texts = table.texts["objectId"]
    known_texts = {text: _two_numbers(text) for text in set(texts)}
    held = [known_texts[text] for text in texts]
    numbers = np.asarray(held, dtype=np.int64).reshape(-1, 2)
    return numbers[:, 0], np.where(threads, numbers[:, 1], NULL)


def _two_numbers(digits: str) -> tuple[int, int]:
    """The first two 32-bit numbers of some bytes."""
    raw = bytes.fromhex(digits)
    if len(raw) < 8:
        return NULL, NULL
    return int.from_bytes(raw[:4], "little"), int.from_bytes(raw[4:8], "little")
