"""Names, processes and devices of an export, for the readers of its tables."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from stepwhy.read.shared.cuda_activity import ABSENT, CudaActivity, each
from stepwhy.trace import NULL, DeviceKind, Role

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.read.shared.database import Database, Rows
    from stepwhy.trace import TraceBuilder

# A global id contains the machine, the process (24 bits) and the thread (24 bits).
_BITS = 24
_LOW = (1 << _BITS) - 1
# Correlation ids have 32 bits; stepwhy adds a number of the process above them.
_CORRELATION_BITS = 32
# Names of ENUM_NSYS_EVENT_TYPE, for exports without that table.
_EVENT_TYPES = {59: "NvtxPushPopRange", 60: "NvtxStartEndRange", 75: "NvtxDomainCreate"}
# Device number of graphs that begin on the host.
_NO_DEVICE = 2**31 - 1
# Processes beyond these count as one on the devices.
_MOST_PROCESSES = 1 << 14
_OTHER_PROCESSES = -2


class Export:
    """An export that is being read.

    Args:
        database: Its tables.
        builder: Receives their content.
    """

    def __init__(self, database: Database, builder: TraceBuilder) -> None:
        self.database = database
        self.builder = builder
        self.activity = CudaActivity(database, builder)
        self._processes: dict[int, int] = {}
        self._devices: dict[tuple[int, ...], int] = {}
        self._names: set[str] = set()
        self._numbers: dict[int, set[int]] = {}

    @cached_property
    def strings(self) -> dict[int, str]:
        """Texts by their ids; many are private, so use only those that a record refers to."""
        return self.database.texts("StringIds", "id", "value")

    def enum(self, table: str) -> dict[int, str]:
        """Names of an enumeration; {} if the export lacks its table."""
        return self.database.texts(table, "id", "name")

    @cached_property
    def _event_types(self) -> dict[int, str]:
        return {**_EVENT_TYPES, **self.enum("ENUM_NSYS_EVENT_TYPE")}

    def event_types(self, ending: str) -> list[int]:
        """Numbers of the event types whose names end like this."""
        return [i for i, name in self._event_types.items() if name.endswith(ending)]

    def threads(self, rows: Rows) -> NDArray[np.int64]:
        """Tracks of the threads of `globalTid`; (rows,)."""
        ids = rows["globalTid"]
        return self.activity.threads(_pid(_process(ids)), np.where(ids == ABSENT, NULL, ids & _LOW))

    def range_tracks(self, rows: Rows) -> NDArray[np.int64]:
        """Tracks for ranges of the threads of `globalTid` that need not nest; (rows,)."""

        def track(ids: int) -> int:
            if ids == ABSENT:
                return self.builder.track(Role.HOST_THREAD, "ranges of no thread")
            name = f"ranges of thread {ids & _LOW}"
            return self.builder.track(Role.HOST_THREAD, name, process=(ids >> _BITS) & _LOW)

        return each(track, rows["globalTid"])

    def streams(self, rows: Rows) -> NDArray[np.int64]:
        """Tracks of the streams of `globalPid`, `deviceId` and `streamId`; (rows,)."""
        process = self._process_of_device(rows)
        is_other = each(self._process_number, process) == NULL
        process = np.where(is_other, _OTHER_PROCESSES, process)
        self.activity.health.count(
            "processes-together",
            "warning",
            f"Device work of processes beyond the first {_MOST_PROCESSES:,} counts as that of one.",
            count=int(is_other.sum()),
            dropped=False,
        )
        device = each(self._device, process, self._number(process, rows["deviceId"]))
        return self.activity.streams(_pid(process), device, rows["streamId"])

    def awaited_streams(self, rows: Rows) -> NDArray[np.int64]:
        """Tracks of the streams of records of synchronisations, when all device work is read.

        Their device numbers cannot be relied on: a process with one device may have 0 for it, while
        its kernels have another number. NULL for processes without device work; (rows,).
        """
        process = self._process_of_device(rows)
        devices = each(lambda owner: len(self._numbers.get(owner, ())), process)
        numbers = np.where(devices == 1, _NO_DEVICE, rows["deviceId"])
        track, known = np.full(len(rows), NULL), devices > 0
        track[known] = self.streams(rows.with_columns(deviceId=numbers).where(known))
        return track

    def correlations(self, rows: Rows) -> NDArray[np.int64]:
        """Correlation ids that are unique among all processes; (rows,)."""
        on_device = "globalPid" in rows.ints
        process = self._process_of_device(rows) if on_device else _process(rows["globalTid"])
        number = each(self._process_number, process)
        ids = rows["correlationId"]
        usable = (ids > 0) & (ids < 1 << _CORRELATION_BITS) & (number != NULL)
        return np.where(usable, ids + (number << _CORRELATION_BITS), NULL)

    def _process_number(self, process: int) -> int:
        """Number of a process, NULL beyond `_MOST_PROCESSES`."""
        if process not in self._processes and len(self._processes) >= _MOST_PROCESSES:
            return NULL
        return self._processes.setdefault(process, len(self._processes))

    def _process_of_device(self, rows: Rows) -> NDArray[np.int64]:
        """Processes of device records; where none is recorded, the only one that called the API."""
        process = _process(rows["globalPid"])
        only = next(iter(self._processes)) if len(self._processes) == 1 else NULL
        return np.where(process == NULL, only, process)

    def _number(self, process: NDArray[np.int64], recorded: NDArray[np.int64]) -> NDArray[np.int64]:
        """Device numbers; a graph that begins on the host gets the first device of its process."""

        def first(owner: int) -> int:
            numbers = self._numbers.get(owner, set())
            return min(numbers) if numbers else 0

        is_host = (recorded < 0) | (recorded >= _NO_DEVICE)
        number = np.where(is_host, each(first, process), recorded) if is_host.any() else recorded
        pairs = np.stack((process, recorded), axis=1)[~is_host]
        for owner, own in np.unique(pairs, axis=0).tolist():
            self._numbers.setdefault(owner, set()).add(own)
        return number

    def _device(self, process: int, number: int) -> int:
        """Row of a process's device.

        Processes number the devices that they can see: one number can mean several devices, and
        one device can have several numbers.
        """
        gpu = self._gpus.get((process & _LOW, number))
        identity = (process, number) if gpu is None else (gpu,)
        if identity not in self._devices:
            name = f"GPU:{number}"
            if process == _OTHER_PROCESSES:
                name = f"{name} (other processes)"
            elif name in self._names:
                name = f"{name} (process {process & _LOW})"
            self._names.add(name)
            model = self._model(number if gpu is None else gpu, by_cuda=gpu is None)
            self._devices[identity] = self.builder.device(name, DeviceKind.GPU, model)
        return self._devices[identity]

    @cached_property
    def _gpus(self) -> dict[tuple[int, int], int]:
        """The GPU behind a process's device number."""
        rows = self.database.read("TARGET_INFO_CUDA_DEVICE", ("pid", "cudaId", "gpuId"))
        found = zip(*(rows[c].tolist() for c in ("pid", "cudaId", "gpuId")), strict=True)
        return {(pid, number): gpu for pid, number, gpu in found if gpu >= 0}

    @cached_property
    def gpus(self) -> Rows:
        """The GPUs of the machine."""
        return self.database.read("TARGET_INFO_GPU", ("id", "cuDevice"), ("name",))

    def _model(self, number: int, *, by_cuda: bool) -> str:
        """Model of a GPU by its own number, or by its CUDA number."""
        names = self.gpus.texts["name"]
        key = "cuDevice" if by_cuda and (self.gpus["cuDevice"] != ABSENT).any() else "id"
        found = [n for n, i in zip(names, self.gpus[key].tolist(), strict=True) if i == number]
        return found[0] if found else names[0] if len(set(names)) == 1 else ""


def _process(ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Processes of global ids, with their machine; NULL where none is recorded."""
    return np.where(ids == ABSENT, NULL, ids >> _BITS)


def _pid(process: NDArray[np.int64]) -> NDArray[np.int64]:
    is_known = (process != NULL) & (process != _OTHER_PROCESSES)
    return np.where(is_known, process & _LOW, NULL)
