"""Notes on the machine that qualify the measured times, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.base.units import format_bytes, format_fraction, format_ns
from stepwhy.result.machine import DiskWait, Throttled

if TYPE_CHECKING:
    from stepwhy.result.machine import CoreContention, CoreWait, MachineNote

_FEW_CORES = 0.25  # kept busy by other programs; every machine runs some


def unreliable(contention: CoreContention) -> str:
    """What contended cores mean for the measurement."""
    share = format_fraction(contention.share)
    if _is_alone(contention):
        return (
            "The measurement of single operations is unreliable, that of the whole step is not: "
            f"{contention.own_threads:.0f} of the program's own threads wanted to run at once on "
            f"{contention.cores} cores, and the process spent {share} of its runnable time waiting "
            "for a core."
        )
    others = ""
    if contention.background_cores and contention.cores:
        busy, cores = contention.background_cores, contention.cores
        others = f", while other programs kept {busy:.1f} of {cores} busy"
    if contention.own_threads and contention.cores:
        others = f": {contention.own_threads:.0f} of its threads wanted to run at once{others}"
    return (
        f"The measurement is unreliable: CPU cores were contended. The process spent {share} of "
        f"its runnable time waiting for a core{others}."
    )


def _is_alone(contention: CoreContention) -> bool:
    """Whether only the program's own threads are known to have competed for the cores."""
    if not contention.own_threads or not contention.cores:
        return False
    return contention.background_cores is not None and contention.background_cores < _FEW_CORES


def core_wait_sentence(wait: CoreWait) -> str:
    """How long the driving thread waits for a core, and who keeps the cores busy meanwhile."""
    share = format_fraction(wait.time_ns / wait.wall_ns)
    return (
        f"The driving thread waits for a CPU core for {format_ns(wait.time_ns)} of every step "
        f"({share}){_competitors(wait)}. The categories include this wait."
    )


def _competitors(wait: CoreWait) -> str:
    """Who competes for the cores, as the end of a sentence; '' if unknown."""
    cores = f"{wait.cores} cores" if wait.cores else "the cores"
    found = []
    if wait.own_threads:
        found.append(f"{wait.own_threads:.0f} of the program's own threads want to run at once")
    elif wait.is_own:
        found.append(f"the program's own threads and processes compete for {cores}")
    if wait.background_cores:
        found.append(f"other programs keep {wait.background_cores:.1f} of {cores} busy")
    return f": {' and '.join(found)}" if found else ""


def machine_sentence(note: MachineNote) -> str:
    """The sentence of a note about the machine."""
    share = format_fraction(note.share)
    match note:
        case DiskWait(_, True):
            return (
                f"All runnable work on the machine waited for a disk for {share} of the time"
                f"{_moved(note)}. The share of the training itself is unknown "
                "(sysctl kernel.task_delayacct=1 makes the kernel count it)."
            )
        case DiskWait():
            return f"The main thread was blocked on a disk for {share} of the time{_moved(note)}."
        case Throttled(gpu):
            return (
                f"GPU {gpu} was slowed down by heat or a power brake for {share} of the time: its "
                "kernels take longer than usual."
            )


def _moved(wait: DiskWait) -> str:
    """What the process read and wrote meanwhile."""
    moved = ((wait.read_bytes, "read"), (wait.written_bytes, "wrote"))
    parts = [f"{verb} {format_bytes(size)}" for size, verb in moved if size]
    return f" (the process {' and '.join(parts)})" if parts else ""
