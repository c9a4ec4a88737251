"""From the lines of a counter log to samples of a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from stepwhy.trace import NULL, DeviceKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.trace import TraceBuilder


class _Gpu(msgspec.Struct):
    """A GPU in one line of counters.jsonl; what the driver did not give is None."""

    index: int
    name: str = ""
    utilisation_percent: int | None = None
    used_bytes: int | None = None
    total_bytes: int | None = None
    process_bytes: int | None = None
    power_mw: int | None = None
    sm_clock_mhz: int | None = None
    throttle_reasons: int | None = None


class _Sample(msgspec.Struct):
    """One line of counters.jsonl; what the kernel did not give is None."""

    time_ns: int
    cpu_ns: int | None = None
    run_delay_ns: int | None = None
    user_ns: int | None = None
    system_ns: int | None = None
    resident_bytes: int | None = None
    swap_bytes: int | None = None
    minor_faults: int | None = None
    major_faults: int | None = None
    threads: int | None = None
    disk_wait_ns: int | None = None
    disk_read_bytes: int | None = None
    disk_written_bytes: int | None = None
    machine_busy_ns: int | None = None
    machine_disk_stall_ns: int | None = None
    machine_memory_stall_ns: int | None = None
    machine_swapped_in_bytes: int | None = None
    machine_memory_bytes: int | None = None
    job_cpu_ns: int | None = None
    observer_cpu_ns: int | None = None
    cores: int | None = None
    gpus: list[_Gpu] = []


_COUNTERS = tuple(n for n in _Sample.__struct_fields__ if n not in {"time_ns", "gpus"})
_GPU_COUNTERS = tuple(n for n in _Gpu.__struct_fields__ if n not in {"index", "name"})


def add_counters(lines: Sequence[bytes], builder: TraceBuilder) -> None:
    """Add the samples of a log to `counters`, each under its own name; torn lines are skipped.

    A GPU is the device 'nvml:<index>': the driver's count, which need not be the framework's. Its
    counters are named 'gpu <key>'.

    Args:
        lines: The lines of `counters.jsonl`.
        builder: Takes the rows.
    """
    for line in lines:
        try:
            sample = msgspec.json.decode(line, type=_Sample)
        except msgspec.DecodeError:
            continue
        for name in _COUNTERS:
            _add(builder, sample.time_ns, name, getattr(sample, name))
        for gpu in sample.gpus:
            device = builder.device(f"nvml:{gpu.index}", DeviceKind.GPU, gpu.name)
            for name in _GPU_COUNTERS:
                _add(builder, sample.time_ns, f"gpu {name}", getattr(gpu, name), device)


def _add(
    builder: TraceBuilder, time_ns: int, name: str, value: int | None, device: int = NULL
) -> None:
    if value is not None:
        builder.add(
            "counters", time_ns=time_ns, name=builder.intern(name), value=value, device=device
        )
