"""Load of the machine during an observed run."""

from __future__ import annotations

from typing import Literal

import msgspec


class GpuLoad(msgspec.Struct, frozen=True):
    """A GPU that the process used, as its driver reports it; None for what it does not report.

    Means and shares are of the time in which it was sampled.

    Args:
        index: Index of the GPU in the driver.
        model: Model name; '' if unknown.
        mean_utilisation: Share of the time in which any kernel of any program ran.
        peak_used_bytes: Peak of the memory used by all programs.
        total_bytes: Memory of the GPU.
        peak_process_bytes: Peak of the memory used by the process.
        mean_power_watts: Mean power draw.
        mean_sm_clock_hz: Mean clock of the streaming multiprocessors.
        throttled_share: Share of the time in which heat or a power brake slowed it down.
        power_capped_share: Share of the time in which its power limit lowered the clocks, which is
            usual under full load.
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
    """A line of the program that often occurs in stack samples.

    Args:
        line: 'file(line): function'.
        share: Share of the samples of all threads of this role, computing or waiting, in the
            program or in what the line calls.
        role: 'driver': the driving thread; 'worker': processes that it started, such as DataLoader
            workers; 'thread': its other threads that run code of the program.
    """

    line: str
    share: float
    role: Literal["driver", "worker", "thread"]
