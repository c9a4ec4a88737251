"""The numbers of a run while it lasts."""

from __future__ import annotations

import threading
import time

from stepwhy.apps.top.process import LiveProcess
from stepwhy.record.core.clock import now_ns
from stepwhy.record.core.masking import masked
from stepwhy.show.metrics.model import Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from stepwhy.show.metrics.model import Process

# Several publishers ask for the numbers, and a scrape comes at any time.
_FRESH_S = 0.5
_MOST_PROCESSES = 256


class LiveRun:
    """Reads the logs of all processes of a run; may be used by several threads.

    Args:
        run_dir: The run directory.
        fresh_s: Time for which numbers that were read are used again, s.
    """

    def __init__(self, run_dir: Path, fresh_s: float = _FRESH_S) -> None:
        self._run_dir = run_dir
        self._fresh_s = fresh_s
        self._name = masked(run_dir.name)
        self._processes: dict[str, LiveProcess] = {}
        self._lock = threading.Lock()
        self._read_s: float | None = None
        self._last: tuple[Process, ...] = ()

    def read(self, is_running: bool = True) -> Run:
        """The numbers so far.

        Args:
            is_running: Whether the run still lasts; at its end, everything is read once more, and
                what its processes use is unknown.
        """
        with self._lock:
            now_s = time.monotonic()
            is_fresh = self._read_s is not None and now_s - self._read_s < self._fresh_s
            if not (is_fresh and is_running):
                self._last = tuple(self._read_processes())
                self._read_s = now_s
        processes = self._last
        if not is_running:
            processes = tuple(process._replace(usage=None) for process in processes)
        return Run(self._name, processes, is_running)

    def _read_processes(self) -> list[Process]:
        """One process per rank, or the one with most time in steps."""
        for folder in sorted(self._run_dir.glob("process-*")):
            if folder.name not in self._processes and len(self._processes) < _MOST_PROCESSES:
                self._processes[folder.name] = LiveProcess(folder)
        time_ns = now_ns()
        chosen: dict[int | None, tuple[int, Process]] = {}
        for live in self._processes.values():
            process = live.read(time_ns)
            # A rank that was started again, by an elastic launcher, replaces the former one.
            when = process.last_step_ns or 0
            rate = when if process.rank is not None else live.step_time_ns
            before = chosen.get(process.rank)
            if before is None or rate > before[0]:
                chosen[process.rank] = (rate, process)
        return [process for _, process in chosen.values()]
