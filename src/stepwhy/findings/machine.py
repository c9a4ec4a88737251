"""What was seen of the machine that a captured run was on."""

from __future__ import annotations

from typing import Literal

import msgspec


class GpuLoad(msgspec.Struct, frozen=True):
    """A GPU that the process had open, as the driver tells; None where the driver does not.

    Means and shares are of the time in which it was sampled.

    Args:
        index: Its number, as the driver counts.
        model: Its model, '' when unknown.
        mean_utilisation: Share of the time in which any kernel ran, of any program.
        peak_used_bytes: Most memory in use, by all programs.
        total_bytes: Its memory.
        peak_process_bytes: Most memory in use by the process.
        mean_power_watts: Power drawn.
        mean_sm_clock_hz: Clock of the streaming multiprocessors.
        throttled_share: Share of the time in which heat or a power brake slowed it down.
        power_capped_share: Share of the time in which its power limit held the clocks down, which
            is usual under full load.
    """

    index: int
    model: str = ""
    mean_utilisation: float | None = None
    peak_used_bytes: int | None = None
    total_bytes: int | None = None
    peak_process_bytes: int | None = None
    mean_power_watts: float | None = None
    mean_sm_clock_hz: int | None = None
    throttled_share: float | None = None
    power_capped_share: float | None = None


class HostLine(msgspec.Struct, frozen=True):
    """A line of the program that often held a thread, by stack samples.

    Args:
        line: 'file(line): function'.
        share: Of the samples of all threads of this role, computing and waiting alike.
        role: 'driver': the driving thread, outside the framework's own code; 'worker': processes
            that it started, such as DataLoader workers; 'thread': its other threads that run code
            of the program.
    """

    line: str
    share: float
    role: Literal["driver", "worker", "thread"]
