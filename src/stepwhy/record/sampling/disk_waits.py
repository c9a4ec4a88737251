"""Sample what the main thread of a process waits for.

The kernel's own account of waits for disks (`disk_wait_ns`) is off by default. A thread that waits
for a disk, or for a page of a mapped file, is in uninterruptible sleep; one that waits for another
thread, in interruptible sleep. Short waits are missed more often than long ones, so readers use the
proportion of both, and the time in which the thread was blocked.

Source: proc(5), states 'D' and 'S'.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepwhy.record.sampling.processes import Processes

_COUNTED = {b"D": "disk_waits", b"S": "other_waits"}


class DiskWaits:
    """Counts of samples in which a main thread was waiting, by process.

    Args:
        processes: Reads the proc file system.
    """

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self._counts: dict[int, dict[str, int]] = {}

    def sample(self, pids: Iterable[int]) -> None:
        """Sample the main threads of some processes."""
        for pid in pids:
            counts = self._counts.setdefault(pid, dict.fromkeys(_COUNTED.values(), 0))
            name = _COUNTED.get((self._processes.stat(pid) or [b""])[0])
            if name:
                counts[name] += 1

    def values(self, pid: int) -> dict[str, int]:
        """The counters of a process; empty before the first sample."""
        return self._counts.get(pid, {})


__all__ = ["DiskWaits"]
