"""Load of the machine during an observed run, and reasons for notes on it, as data."""

from __future__ import annotations

from typing import Literal, TypeAlias

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


class CoreContention(msgspec.Struct, frozen=True):
    """The process waited for CPU cores.

    Args:
        share: Share of its runnable time that it waited, 0..1.
        background_cores: Cores that other programs kept busy on average, if known.
        cores: Cores of the machine, if known.
        own_threads: Runnable threads of the process, on average, if they alone are too many.
    """

    share: float
    background_cores: float | None
    cores: int | None
    own_threads: float | None = None


class CoreWait(msgspec.Struct, frozen=True):
    """The driving thread waited for a CPU core.

    Args:
        time_ns: Time of the mean step that it waited.
        wall_ns: Time of the mean step.
        cores: Cores of the machine, if known.
        background_cores: Cores that other programs kept busy on average; None if unknown, or if
            they used next to none.
        own_threads: Runnable threads of the process, on average, if they alone are too many.
        is_own: Whether only threads and processes of the program competed for the cores.
    """

    time_ns: int
    wall_ns: int
    cores: int | None = None
    background_cores: float | None = None
    own_threads: float | None = None
    is_own: bool = False


class DiskWait(msgspec.Struct, frozen=True):
    """The main thread, or all work on the machine, waited for a disk.

    Args:
        share: Share of the time, 0..1.
        of_machine: Whether it is known only for the whole machine.
        read_bytes, written_bytes: What the process read and wrote, if known.
    """

    share: float
    of_machine: bool
    read_bytes: int | None
    written_bytes: int | None


class Throttled(msgspec.Struct, frozen=True):
    """Share of the time in which heat or a power brake slowed a GPU down, 0..1."""

    gpu: int
    share: float


MachineNote: TypeAlias = DiskWait | Throttled
