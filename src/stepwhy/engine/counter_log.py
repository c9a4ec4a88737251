"""From the lines of a counter log to samples of a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.trace import TraceBuilder


class _Sample(msgspec.Struct):
    """One line of counters.jsonl; what the kernel did not give is None."""

    time_ns: int
    cpu_ns: int | None = None
    run_delay_ns: int | None = None
    resident_bytes: int | None = None
    swap_bytes: int | None = None
    major_faults: int | None = None
    threads: int | None = None
    machine_busy_ns: int | None = None
    job_cpu_ns: int | None = None
    cores: int | None = None


def add_counters(lines: Sequence[bytes], builder: TraceBuilder) -> None:
    """Add the samples of a log to `counters`, each under its own name; torn lines are skipped.

    Args:
        lines: The lines of `counters.jsonl`.
        builder: Takes the rows.
    """
    for line in lines:
        try:
            sample = msgspec.json.decode(line, type=_Sample)
        except msgspec.DecodeError:
            continue
        for name in _Sample.__struct_fields__[1:]:
            value = getattr(sample, name)
            if value is not None:
                builder.add(
                    "counters", time_ns=sample.time_ns, name=builder.intern(name), value=value
                )
