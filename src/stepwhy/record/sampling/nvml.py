"""Sample utilisation, memory and clocks of NVIDIA GPUs from outside the job.

Each GPU that an observed process has open is one entry of `gpus` in its ``counters.jsonl``::

    {"index", "name", "utilisation_percent", "used_bytes", "total_bytes", "process_bytes",
     "power_mw", "sm_clock_mhz", "throttle_reasons"}

`index` is that of the driver, which may differ from CUDA's. `used_bytes` covers all programs,
`process_bytes` only the observed process. `throttle_reasons` is NVML's bit mask. Unknown values are
absent: consumer GPUs, partitions (MIG), virtual GPUs and containers each omit some.

The driver lists the ids of processes as the host numbers them, so in a container they are those of
other processes, or of none: there, a process has the GPUs whose device files it has open, and its
share of their memory is unknown. Of a GPU in partitions, `used_bytes` and `total_bytes` are those
of the partition that the process runs in, and absent if that is not known.

Source: NVIDIA, NVML API Reference Guide and Multi-Instance GPU User Guide; nvidia-ml-py (`pynvml`);
linux/proc_ns.h.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stepwhy.record.sampling.processes import Processes

LIBRARY = "libnvidia-ml.so.1"
_DEVICE_FILE = "/dev/nvidia{}"
_NAMESPACE = "self/ns"
# The namespace of process ids that every other one is inside; its number is fixed.
_HOST_NAMESPACE = "pid:[4026531836]"


@dataclass(frozen=True, slots=True)
class _Gpu:
    """One GPU: NVML handle, index, model name, device file, and the handles of its partitions."""

    handle: Any
    index: int
    name: str | None
    file: str
    parts: tuple[Any, ...] | None = None


class Gpus:
    """The GPUs of this machine.

    Args:
        nvml: The module `pynvml`, or None if there is no GPU.
    """

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        count = _query(lambda: int(nvml.nvmlDeviceGetCount())) or 0
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
        # Whether processes have the numbers here that the driver knows.
        spaces = [link for link in processes.links(_NAMESPACE) if link.startswith("pid:")]
        is_host = not spaces or _HOST_NAMESPACE in spaces
        for gpu in self._gpus:
            for part in (gpu.handle,) if gpu.parts is None else gpu.parts:
                users = self._users(part) if is_host else {}
                owners = [pid for pid in pids if pid in users]
                state = self._state(gpu, part) if owners else {}
                for pid in owners:
                    own = users[pid]
                    about = {} if own is None else {"process_bytes": own}
                    entries.setdefault(pid, []).append({**state, **about})
            if not any(entry["index"] == gpu.index for each in entries.values() for entry in each):
                owners = [pid for pid in pids if gpu.file in processes.links(f"{pid}/fd")]
                state = self._state(gpu, self._only_part(gpu)) if owners else {}
                for pid in owners:
                    entries.setdefault(pid, []).append(state)
        return entries

    def _only_part(self, gpu: _Gpu) -> Any:
        """What a process uses that has a GPU open: the GPU, its only partition, or unknown."""
        if gpu.parts is None:
            return gpu.handle
        return gpu.parts[0] if len(gpu.parts) == 1 else None

    def _find(self, index: int) -> _Gpu | None:
        handle = _query(lambda: self._nvml.nvmlDeviceGetHandleByIndex(index))
        if handle is None:
            return None
        minor = _query(lambda: self._nvml.nvmlDeviceGetMinorNumber(handle))
        name = _query(lambda: self._nvml.nvmlDeviceGetName(handle))
        file = _DEVICE_FILE.format(index if minor is None else minor)
        return _Gpu(handle, index, name, file, self._parts(handle))

    def _parts(self, handle: Any) -> tuple[Any, ...] | None:
        """The partitions (MIG devices) of a GPU that may be seen; None of a whole GPU."""
        nvml = self._nvml
        mode = _query(lambda: nvml.nvmlDeviceGetMigMode(handle))
        if mode is None or mode[0] != nvml.NVML_DEVICE_MIG_ENABLE:
            return None
        most = _query(lambda: int(nvml.nvmlDeviceGetMaxMigDeviceCount(handle))) or 0
        ask = nvml.nvmlDeviceGetMigDeviceHandleByIndex
        found = [_query(functools.partial(ask, handle, slot)) for slot in range(most)]
        return tuple(part for part in found if part is not None)

    def _users(self, handle: Any) -> dict[int, int | None]:
        """Memory of each process that computes on a GPU or partition, by the host's ids."""
        listed = _query(lambda: self._nvml.nvmlDeviceGetComputeRunningProcesses(handle))
        return {process.pid: process.usedGpuMemory for process in listed or ()}

    def _state(self, gpu: _Gpu, part: Any) -> dict[str, int | str]:
        """The state of a GPU.

        Args:
            gpu: The GPU.
            part: Handle of what the process uses of it; None if that is unknown.
        """
        nvml, handle = self._nvml, gpu.handle
        known = part is not None
        use = _query(lambda: nvml.nvmlDeviceGetUtilizationRates(part)) if known else None
        memory = _query(lambda: nvml.nvmlDeviceGetMemoryInfo(part)) if known else None
        # All partitions share the power of their GPU.
        power = (
            None if gpu.parts is not None else _query(lambda: nvml.nvmlDeviceGetPowerUsage(handle))
        )
        values = {
            "name": gpu.name,
            "utilisation_percent": None if use is None else int(use.gpu),
            "used_bytes": None if memory is None else int(memory.used),
            "total_bytes": None if memory is None else int(memory.total),
            "power_mw": power,
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


def _query(query: Callable[[], Any]) -> Any:
    """The result of a query; None if the driver, the GPU or the module does not support it."""
    try:
        return query()
    except Exception:  # NVMLError and, of other versions of the module, AttributeError
        return None
