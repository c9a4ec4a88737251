"""Sample utilisation, memory and clocks of NVIDIA GPUs from outside the job.

Each GPU that an observed process has open is one entry of `gpus` in its ``counters.jsonl``::

    {"index", "name", "utilisation_percent", "used_bytes", "total_bytes", "process_bytes",
     "power_mw", "sm_clock_mhz", "throttle_reasons"}

`index` is that of the driver, which may differ from CUDA's. `used_bytes` covers all programs,
`process_bytes` only the observed process. `throttle_reasons` is NVML's bit mask. Unknown values are
absent: consumer GPUs, partitions (MIG), virtual GPUs and containers each omit some.

Source: NVIDIA, NVML API Reference Guide; nvidia-ml-py (`pynvml`).
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from stepwhy.capture.sampling.processes import Processes

LIBRARY = "libnvidia-ml.so.1"
_DEVICE_FILE = "/dev/nvidia{}"


@dataclass(frozen=True, slots=True)
class _Gpu:
    """One GPU: NVML handle, index, model name and device file."""

    handle: Any
    index: int
    name: str | None
    file: str


class Gpus:
    """The GPUs of this machine.

    Args:
        nvml: The module `pynvml`, or None if there is no GPU.
    """

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        count = self._count()
        found = [self._find(index) for index in range(count)]
        self._gpus = [gpu for gpu in found if gpu is not None]

    @classmethod
    def open(cls) -> Self | None:
        """The GPUs of this machine; None if the driver's library is missing or fails."""
        try:
            ctypes.CDLL(LIBRARY)
            nvml = importlib.import_module("pynvml")
            nvml.nvmlInit()
            return cls(nvml)
        except Exception:
            return None

    @classmethod
    def none(cls) -> Self:
        """No GPU at all."""
        return cls(None)

    def close(self) -> None:
        """Release the driver; never raises."""
        with contextlib.suppress(Exception):
            self._nvml.nvmlShutdown()

    def sample(
        self, pids: Sequence[int], processes: Processes
    ) -> dict[int, list[dict[str, int | str]]]:
        """The state of the GPUs that some processes have open; never raises.

        Args:
            pids: Ids of the processes.
            processes: Reads which device files they have open.

        Returns:
            By process id, one entry per GPU; processes without a GPU are absent.
        """
        entries: dict[int, list[dict[str, int | str]]] = {}
        for gpu in self._gpus:
            users = self._users(gpu)
            owners = [pid for pid in pids if pid in users] or _open(gpu.file, pids, processes)
            state = self._state(gpu) if owners else {}
            for pid in owners:
                own = users.get(pid)
                about = {} if own is None else {"process_bytes": own}
                entries.setdefault(pid, []).append({**state, **about})
        return entries

    def _count(self) -> int:
        return _query(lambda: int(self._nvml.nvmlDeviceGetCount())) or 0

    def _find(self, index: int) -> _Gpu | None:
        handle = _query(lambda: self._nvml.nvmlDeviceGetHandleByIndex(index))
        if handle is None:
            return None
        minor = _query(lambda: self._nvml.nvmlDeviceGetMinorNumber(handle))
        name = _query(lambda: self._nvml.nvmlDeviceGetName(handle))
        return _Gpu(handle, index, name, _DEVICE_FILE.format(index if minor is None else minor))

    def _users(self, gpu: _Gpu) -> dict[int, int | None]:
        """Memory of each process that computes on a GPU; in a container, ids may be the host's."""
        listed = _query(lambda: self._nvml.nvmlDeviceGetComputeRunningProcesses(gpu.handle))
        return {process.pid: process.usedGpuMemory for process in listed or ()}

    def _state(self, gpu: _Gpu) -> dict[str, int | str]:
        nvml, handle = self._nvml, gpu.handle
        use = _query(lambda: nvml.nvmlDeviceGetUtilizationRates(handle))
        memory = _query(lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
        values = {
            "name": gpu.name,
            "utilisation_percent": None if use is None else int(use.gpu),
            "used_bytes": None if memory is None else int(memory.used),
            "total_bytes": None if memory is None else int(memory.total),
            "power_mw": _query(lambda: nvml.nvmlDeviceGetPowerUsage(handle)),
            "sm_clock_mhz": _query(lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
            "throttle_reasons": self._reasons(gpu),
        }
        return {"index": gpu.index, **{k: v for k, v in values.items() if v is not None}}

    def _reasons(self, gpu: _Gpu) -> int | None:
        """Reasons of reduced clocks, by the current name or that of older drivers."""
        reasons = _query(lambda: self._nvml.nvmlDeviceGetCurrentClocksEventReasons(gpu.handle))
        if reasons is None:
            ask = "nvmlDeviceGetCurrentClocksThrottleReasons"
            reasons = _query(lambda: getattr(self._nvml, ask)(gpu.handle))
        return None if reasons is None else int(reasons)


def _open(file: str, pids: Iterable[int], processes: Processes) -> list[int]:
    """The processes that have a device file open."""
    return [pid for pid in pids if file in processes.links(f"{pid}/fd")]


def _query(query: Callable[[], Any]) -> Any:
    """The result of a query; None if the driver, the GPU or the module does not support it."""
    try:
        return query()
    except Exception:  # NVMLError and, of other versions of the module, AttributeError
        return None
