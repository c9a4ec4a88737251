"""Use, memory and clocks of NVIDIA GPUs, asked of the driver from outside the job.

Each GPU that an observed process has open is one entry of `gpus` in its ``counters.jsonl``::

    {"index", "name", "utilisation_percent", "used_bytes", "total_bytes", "process_bytes",
     "power_mw", "sm_clock_mhz", "throttle_reasons"}

`index` counts as the driver does, which is not always how CUDA counts. `used_bytes` is of all its
programs, `process_bytes` of the observed process alone. `throttle_reasons` is NVML's bit mask.
What a GPU does not tell is absent: consumer GPUs, partitions (MIG), virtual GPUs and containers
each leave out something.

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
    """One GPU: how NVML calls it, its number, its model and its device file."""

    handle: Any
    index: int
    name: str | None
    file: str


class Gpus:
    """The GPUs of this machine.

    Args:
        nvml: The module `pynvml`, or None where there is no GPU.
    """

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        count = self._count()
        found = [self._find(index) for index in range(count)]
        self._gpus = [gpu for gpu in found if gpu is not None]

    @classmethod
    def open(cls) -> Self | None:
        """The GPUs of this machine, None where the driver's library is missing or fails."""
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
        """Let the driver go; never raises."""
        with contextlib.suppress(Exception):
            self._nvml.nvmlShutdown()

    def sample(
        self, pids: Sequence[int], processes: Processes
    ) -> dict[int, list[dict[str, int | str]]]:
        """The state of the GPUs that some processes have open; never raises.

        Args:
            pids: The processes.
            processes: Shows which device files they have open.

        Returns:
            By process id, one entry per GPU; processes without one are left out.
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
        return _asked(lambda: int(self._nvml.nvmlDeviceGetCount())) or 0

    def _find(self, index: int) -> _Gpu | None:
        handle = _asked(lambda: self._nvml.nvmlDeviceGetHandleByIndex(index))
        if handle is None:
            return None
        minor = _asked(lambda: self._nvml.nvmlDeviceGetMinorNumber(handle))
        name = _asked(lambda: self._nvml.nvmlDeviceGetName(handle))
        return _Gpu(handle, index, name, _DEVICE_FILE.format(index if minor is None else minor))

    def _users(self, gpu: _Gpu) -> dict[int, int | None]:
        """Memory by process that computes on a GPU; in a container the ids may be the host's."""
        listed = _asked(lambda: self._nvml.nvmlDeviceGetComputeRunningProcesses(gpu.handle))
        return {process.pid: process.usedGpuMemory for process in listed or ()}

    def _state(self, gpu: _Gpu) -> dict[str, int | str]:
        nvml, handle = self._nvml, gpu.handle
        use = _asked(lambda: nvml.nvmlDeviceGetUtilizationRates(handle))
        memory = _asked(lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
        told = {
            "name": gpu.name,
            "utilisation_percent": None if use is None else int(use.gpu),
            "used_bytes": None if memory is None else int(memory.used),
            "total_bytes": None if memory is None else int(memory.total),
            "power_mw": _asked(lambda: nvml.nvmlDeviceGetPowerUsage(handle)),
            "sm_clock_mhz": _asked(lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
            "throttle_reasons": self._reasons(gpu),
        }
        return {"index": gpu.index, **{k: v for k, v in told.items() if v is not None}}

    def _reasons(self, gpu: _Gpu) -> int | None:
        """Why the clocks are lower than they could be, under its name and that of older drivers."""
        reasons = _asked(lambda: self._nvml.nvmlDeviceGetCurrentClocksEventReasons(gpu.handle))
        if reasons is None:
            ask = "nvmlDeviceGetCurrentClocksThrottleReasons"
            reasons = _asked(lambda: getattr(self._nvml, ask)(gpu.handle))
        return None if reasons is None else int(reasons)


def _open(file: str, pids: Iterable[int], processes: Processes) -> list[int]:
    """Those of some processes that have a device file open."""
    return [pid for pid in pids if file in processes.links(f"{pid}/fd")]


def _asked(query: Callable[[], Any]) -> Any:
    """The answer to a query; None where the driver, the GPU or the module does not know it."""
    try:
        return query()
    except Exception:  # NVMLError and, of other versions of the module, AttributeError
        return None
