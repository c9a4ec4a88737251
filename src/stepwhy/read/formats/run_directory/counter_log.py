"""Converts the lines of a counter log to samples of a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec

from stepwhy.read.formats.run_directory.records import DAMAGED, Amount, Int
from stepwhy.trace import NULL, DeviceKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.read.formats.run_directory.files import ProcessFile
    from stepwhy.trace import TraceBuilder


# A million is a terahertz: times a million, it still fits into 64 bits.
_Megahertz = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]


class _Gpu(msgspec.Struct):
    """A GPU in one line of counters.jsonl; values missing from the driver are None."""

    index: Amount
    name: str = ""
    utilisation_percent: Amount | None = None
    used_bytes: Amount | None = None
    total_bytes: Amount | None = None
    process_bytes: Amount | None = None
    power_mw: Amount | None = None
    sm_clock_mhz: _Megahertz | None = None
    throttle_reasons: Amount | None = None


class _Sample(msgspec.Struct):
    """One line of counters.jsonl; values missing from the kernel are None."""

    time_ns: Int
    cpu_ns: Amount | None = None
    run_delay_ns: Amount | None = None
    user_ns: Amount | None = None
    system_ns: Amount | None = None
    resident_bytes: Amount | None = None
    swap_bytes: Amount | None = None
    minor_faults: Amount | None = None
    major_faults: Amount | None = None
    threads: Amount | None = None
    disk_wait_ns: Amount | None = None
    disk_read_bytes: Amount | None = None
    disk_written_bytes: Amount | None = None
    main_ran_ns: Amount | None = None
    disk_waits: Amount | None = None
    other_waits: Amount | None = None
    machine_busy_ns: Amount | None = None
    machine_disk_stall_ns: Amount | None = None
    machine_memory_stall_ns: Amount | None = None
    machine_swapped_in_bytes: Amount | None = None
    machine_memory_bytes: Amount | None = None
    job_cpu_ns: Amount | None = None
    children_cpu_ns: Amount | None = None
    observer_cpu_ns: Amount | None = None
    cores: Amount | None = None
    gpus: list[_Gpu] = []


_COUNTERS = tuple(n for n in _Sample.__struct_fields__ if n not in {"time_ns", "gpus"})
_GPU_COUNTERS = tuple(n for n in _Gpu.__struct_fields__ if n not in {"index", "name"})


def add_counters(lines: Sequence[bytes], builder: TraceBuilder) -> None:
    """Add the samples of a log to `counters`, each under its own name; torn lines are skipped.

    A GPU is the device 'nvml:<index>', numbered as the driver does, which the framework may do
    differently. Its
    counters are named 'gpu <key>'.

    Args:
        lines: The lines of `counters.jsonl`.
        builder: Takes the rows.
    """
    for line in lines:
        try:
            sample = msgspec.json.decode(line, type=_Sample)
        except DAMAGED:
            continue
        for name in _COUNTERS:
            _add(builder, sample.time_ns, name, getattr(sample, name))
        for gpu in sample.gpus:
            device = builder.device(f"nvml:{gpu.index}", DeviceKind.GPU, gpu.name)
            for name in _GPU_COUNTERS:
                _add(builder, sample.time_ns, f"gpu {name}", getattr(gpu, name), device)


def add_constants(process: ProcessFile, time_ns: int, builder: TraceBuilder) -> None:
    """Add what was known of a process at its first step to `counters`.

    Args:
        process: `process.json`.
        time_ns: When.
        builder: Takes the rows.
    """
    for name in ("intra_op_threads", "usable_cores"):
        _add(builder, time_ns, name, getattr(process, name))


def _add(
    builder: TraceBuilder, time_ns: int, name: str, value: int | None, device: int = NULL
) -> None:
    if value is not None:
        builder.add(
            "counters", time_ns=time_ns, name=builder.intern(name), value=value, device=device
        )
