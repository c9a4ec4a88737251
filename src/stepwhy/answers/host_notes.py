"""What the reader should know of the machine before believing the times."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.passes.cores import CONTENDED
from stepwhy.units import format_bytes, format_fraction

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepwhy.findings import GpuLoad, HostLoad

# Less than this of a step is not worth a faster disk.
_DISK_BOUND = 0.05
# The machine's figure is of all its programs: only much of it concerns the training.
_STALLED = 0.1
# Clocks that are held down for less of the time change a step by less than its noise.
_THROTTLED = 0.05


def host_notes(load: HostLoad | None) -> tuple[str, ...]:
    """Sentences about waiting for cores and disks, and about GPUs that were slowed down.

    Args:
        load: What was seen of the machine; None where nothing was.
    """
    if load is None:
        return ()
    throttled = (note for gpu in load.gpus for note in _throttled(gpu))
    return (*_contention(load), *_disk(load), *throttled)


def _contention(load: HostLoad) -> Iterator[str]:
    """The process had to wait for cores: its times say little about the program."""
    if load.run_delay_share is None or load.run_delay_share < CONTENDED:
        return
    others = ""
    if load.background_cores and load.cores:
        others = f", while other programs kept {load.background_cores:.1f} of {load.cores} busy"
    share = format_fraction(load.run_delay_share)
    yield (
        f"CPU cores were contended: the process spent {share} of its runnable time waiting for "
        f"a core{others}. Step times are noisy."
    )


def _disk(load: HostLoad) -> Iterator[str]:
    """The main thread was blocked on a disk; or, where that is not told, the whole machine."""
    if load.disk_wait_share is not None:
        if load.disk_wait_share >= _DISK_BOUND:
            share = format_fraction(load.disk_wait_share)
            yield f"The main thread was blocked on a disk for {share} of the time{_moved(load)}."
    elif load.machine_disk_stall_share is not None and load.machine_disk_stall_share >= _STALLED:
        share = format_fraction(load.machine_disk_stall_share)
        yield (
            f"All runnable work on the machine waited for a disk for {share} of the time"
            f"{_moved(load)}. The share of the training itself is unknown "
            "(sysctl kernel.task_delayacct=1 makes the kernel count it)."
        )


def _moved(load: HostLoad) -> str:
    """What the process read and wrote meanwhile."""
    moved = ((load.disk_read_bytes, "read"), (load.disk_written_bytes, "wrote"))
    parts = [f"{done} {format_bytes(size)}" for size, done in moved if size]
    return f" (the process {' and '.join(parts)})" if parts else ""


def _throttled(gpu: GpuLoad) -> Iterator[str]:
    if gpu.throttled_share is not None and gpu.throttled_share >= _THROTTLED:
        share = format_fraction(gpu.throttled_share)
        yield (
            f"GPU {gpu.index} was slowed down by heat or a power brake for {share} of the time: "
            "its kernels take longer than usual."
        )
