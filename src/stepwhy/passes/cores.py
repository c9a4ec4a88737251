"""Time that a process waited for a CPU core, and the number of cores that other programs used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.passes.counters import series

if TYPE_CHECKING:
    from stepwhy.trace import Trace

CONTENDED = 0.15
"""Cores are contended from this share of waiting on: it lengthens the median step by as much."""


def run_delay_share(trace: Trace) -> float | None:
    """Share of its runnable time that the process waited for a core, 0..1; None if not sampled."""
    running, waiting = series(trace, "cpu_ns").growth, series(trace, "run_delay_ns").growth
    if running is None or waiting is None or running + waiting <= 0:
        return None
    return round(waiting / (running + waiting), 3)


def background_cores(trace: Trace) -> float | None:
    """Cores that other programs kept busy on average; None if not sampled."""
    machine, job = series(trace, "machine_busy_ns"), series(trace, "job_cpu_ns").growth
    if machine.growth is None or job is None or machine.times_ns[-1] <= machine.times_ns[0]:
        return None
    span_ns = int(machine.times_ns[-1] - machine.times_ns[0])
    observer = series(trace, "observer_cpu_ns").growth or 0
    return round(max(machine.growth - job - observer, 0) / span_ns, 2)
