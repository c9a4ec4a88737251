"""Use, memory, power and throttling of the GPUs of a captured run, as sampled from the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.analyse.program.gpus import PREFIX, sampled_gpus
from stepwhy.analyse.steps.counters import series
from stepwhy.result import GpuLoad
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from stepwhy.trace import Trace

# Bits of NVML's mask of reasons. Source: nvml.h, nvmlClocksEventReasons.
_POWER_CAP = 0x4
# Hardware slowdown, and slowdown by software or hardware for heat, or by a power brake.
_THROTTLED = 0x8 | 0x20 | 0x40 | 0x80


def gpu_loads(trace: Trace) -> tuple[GpuLoad, ...]:
    """Load of the sampled GPUs, in the driver's order."""
    loads = [_load(trace, row, name) for row, name in sampled_gpus(trace)]
    return tuple(sorted(loads, key=lambda load: load.index))


def _load(trace: Trace, device: int, name: str) -> GpuLoad:
    def of(key: str) -> float | None:
        return series(trace, f"gpu {key}", device).mean

    def peak(key: str) -> int | None:
        return series(trace, f"gpu {key}", device).largest

    def share(mask: int) -> float | None:
        return _rounded(series(trace, "gpu throttle_reasons", device).where(mask).mean)

    clock = of("sm_clock_mhz")
    model = int(trace.devices.model[device])
    return GpuLoad(
        index=int(name.removeprefix(PREFIX)),
        model="" if model == NULL else trace.string(model),
        mean_utilisation=_rounded(of("utilisation_percent"), 100),
        peak_used_bytes=peak("used_bytes"),
        total_bytes=peak("total_bytes"),
        peak_process_bytes=peak("process_bytes"),
        mean_power_watts=_rounded(of("power_mw"), 1000),
        mean_sm_clock_hz=None if clock is None else round(clock) * 1_000_000,
        throttled_share=share(_THROTTLED),
        power_capped_share=share(_POWER_CAP),
    )


def _rounded(value: float | None, divisor: int = 1) -> float | None:
    return None if value is None else round(value / divisor, 3)
