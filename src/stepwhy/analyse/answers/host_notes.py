"""Notes on the machine that qualify the measured times."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.analyse.steps.cores import CONTENDED, FEW_CORES, OVERSUBSCRIBED
from stepwhy.result.machine import CoreContention, CoreWait, DiskWait, Throttled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepwhy.result import Breakdown, HostLoad
    from stepwhy.result.machine import MachineNote

# Share of the step; a smaller one does not justify a faster disk.
_DISK_BOUND = 0.05
# The figure of the machine covers all programs, so only a large one matters to the training.
_STALLED = 0.1
# Where other programs use few cores, the threads of the process compete among themselves, as pools
# of a framework always do a little: healthy TensorFlow programs waited for up to 30 % of their
# runnable time on two cores.
_CONTENDED_ALONE = 0.35
# Share of the step; the driving thread of a healthy program waits for a core for less than that.
_WAITED = 0.05
# Share of the time; throttling for less changes a step by less than its noise.
_THROTTLED = 0.05


def host_notes(load: HostLoad | None) -> Iterator[MachineNote]:
    """Notes on waiting for disks, and on GPUs that were slowed down.

    Args:
        load: The load of the machine; None if it was not sampled.
    """
    if load is None:
        return
    yield from _disk(load)
    for gpu in load.gpus:
        if gpu.throttled_share is not None and gpu.throttled_share >= _THROTTLED:
            yield Throttled(gpu.index, gpu.throttled_share)


def core_contention(load: HostLoad | None) -> CoreContention | None:
    """The wait for CPU cores that makes the measured times unreliable; None without one.

    Args:
        load: What was seen of the machine; None where nothing was.
    """
    if load is None or load.run_delay_share is None or load.run_delay_share < CONTENDED:
        return None
    cores, own = load.cores, _own_threads(load)
    is_alone = load.background_cores is not None and load.background_cores < FEW_CORES
    if is_alone and own is None and load.run_delay_share < _CONTENDED_ALONE:
        return None
    return CoreContention(load.run_delay_share, load.background_cores, cores, own)


def core_wait(breakdown: Breakdown, load: HostLoad | None) -> CoreWait | None:
    """The wait of the driving thread for a core, and who competed for it; None if it is short.

    Args:
        breakdown: The breakdown of the step.
        load: What was seen of the machine; None where nothing was.
    """
    time_ns, wall_ns = breakdown.core_wait_ns or 0, breakdown.wall_ns
    if time_ns < max(_WAITED * wall_ns, 1):
        return None
    if load is None:
        return CoreWait(time_ns, wall_ns)
    others = load.background_cores
    is_own = others is not None and others < FEW_CORES
    busy = None if is_own else others
    return CoreWait(time_ns, wall_ns, load.cores, busy, _own_threads(load), is_own)


def _own_threads(load: HostLoad) -> float | None:
    """Runnable threads of the process if they alone are too many for the cores, else None."""
    threads, cores = load.runnable_threads, load.cores
    are_too_many = threads and cores and threads >= OVERSUBSCRIBED * cores
    return threads if are_too_many else None


def _disk(load: HostLoad) -> Iterator[DiskWait]:
    """The wait of the main thread for a disk; if that is unknown, of the whole machine."""
    own, machine = load.disk_wait_share, load.machine_disk_stall_share
    moved = load.disk_read_bytes, load.disk_written_bytes
    if own is not None:
        if own >= _DISK_BOUND:
            yield DiskWait(own, False, *moved)
    elif machine is not None and machine >= _STALLED:
        yield DiskWait(machine, True, *moved)
