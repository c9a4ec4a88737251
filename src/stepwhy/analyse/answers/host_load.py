"""How busy the machine, its GPUs and the lines of the program were in a captured run.

A step that waits for a CPU core is slow for a reason outside the program, and a comparison of two
such runs is meaningless. The kernel counts how long a process was ready to run but had no core and,
if configured, how long it was blocked on a disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from stepwhy.analyse.program.gpus import PREFIX, sampled_gpus
from stepwhy.analyse.steps.cores import background_cores, run_delay_share, runnable_threads
from stepwhy.analyse.steps.counters import series
from stepwhy.analyse.steps.sampled_lines import role_lines
from stepwhy.result import GpuLoad, HostLine, HostLoad
from stepwhy.trace import NULL, SampleRole

if TYPE_CHECKING:
    from stepwhy.analyse.facts import Facts
    from stepwhy.trace import Trace

# Bits of NVML's mask of reasons. Source: nvml.h, nvmlClocksEventReasons.
_POWER_CAP = 0x4
# Hardware slowdown, and slowdown by software or hardware for heat, or by a power brake.
_THROTTLED = 0x8 | 0x20 | 0x40 | 0x80
# Further lines, and rarer ones, do not stand out.
_LINES_PER_ROLE = 5
_RAREST_SHARE = 0.02
_NAMES: dict[SampleRole, Literal["driver", "worker", "thread"]] = {
    SampleRole.DRIVER: "driver",
    SampleRole.WORKER: "worker",
    SampleRole.THREAD: "thread",
}
_NOTHING = HostLoad(None, None, None, None)


def described_load(facts: Facts) -> HostLoad | None:
    """The load of the machine, with the use of its cores during the described steps.

    That of the whole run is no evidence of how reliable these are, where the step time changed.
    """
    load, observed = host_load(facts.sampled), facts.observed
    if load is None or observed is None or len(facts.regimes.all) == 1:
        return load
    trace, span_ns = facts.trace, observed.steady_span_ns
    waited, others = run_delay_share(trace, span_ns), background_cores(trace, span_ns)
    if waited is None or others is None:
        return load
    threads = _rounded(runnable_threads(trace, span_ns))
    return replace(load, run_delay_share=waited, background_cores=others, runnable_threads=threads)


def host_load(trace: Trace) -> HostLoad | None:
    """The load of the machine, None if nothing was sampled."""
    load = HostLoad(
        run_delay_share=run_delay_share(trace),
        background_cores=background_cores(trace),
        cores=series(trace, "cores").last,
        peak_resident_bytes=series(trace, "resident_bytes").largest,
        disk_wait_share=_rounded(series(trace, "disk_wait_ns").share_of_time),
        disk_read_bytes=series(trace, "disk_read_bytes").growth,
        disk_written_bytes=series(trace, "disk_written_bytes").growth,
        machine_disk_stall_share=_rounded(series(trace, "machine_disk_stall_ns").share_of_time),
        gpus=gpu_loads(trace),
        lines=hot_lines(trace),
        runnable_threads=_rounded(runnable_threads(trace)),
    )
    was_sampled = series(trace, "cpu_ns").growth is not None
    return load if was_sampled or load != _NOTHING else None


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


def hot_lines(trace: Trace) -> tuple[HostLine, ...]:
    """The lines in which the threads of each role spend most time, at most five per role.

    Time inside a framework counts for the line that called it: samples do not show whether a line
    runs Python or waits for an operation that it has called.
    """
    ranked = {role: role_lines(trace, role) for role in _NAMES}
    return tuple(
        HostLine(line, round(share, 3), _NAMES[role])
        for role, lines in ranked.items()
        for line, share in lines[:_LINES_PER_ROLE]
        if share >= _RAREST_SHARE
    )


def _rounded(value: float | None, divisor: int = 1) -> float | None:
    return None if value is None else round(value / divisor, 3)
