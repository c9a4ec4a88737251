"""Count how often the kernel kills a process of this machine for lack of memory.

Source: proc(5), ``oom_kill`` in ``/proc/vmstat``, from Linux 4.13 on.
"""

from __future__ import annotations

from pathlib import Path

_COUNTERS = Path("/proc/vmstat")


class OomKills:
    """Counts the kills from here on.

    Args:
        counters: File with the kernel's counters.
    """

    def __init__(self, counters: Path = _COUNTERS) -> None:
        self._counters = counters
        self._before = self._total()

    def count(self) -> int | None:
        """Processes killed since then; None if the kernel does not report it."""
        total = self._total()
        return None if total is None or self._before is None else total - self._before

    def _total(self) -> int | None:
        try:
            lines = self._counters.read_text().splitlines()
        except OSError:
            return None
        return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), None)
