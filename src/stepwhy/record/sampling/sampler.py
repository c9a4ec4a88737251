"""Sample the resources used by the job's processes from outside; nothing runs inside the job.

A thread of the launcher reads ``/proc`` for every process with a process directory, and appends to
its ``counters.jsonl``::

    {"time_ns", "cpu_ns", "run_delay_ns", "user_ns", "system_ns", "resident_bytes", "swap_bytes",
     "minor_faults", "major_faults", "threads", "disk_wait_ns", "disk_read_bytes",
     "disk_written_bytes", "main_ran_ns", "disk_waits", "other_waits", "machine_busy_ns",
     "machine_disk_stall_ns", "machine_memory_stall_ns",
     "machine_swapped_in_bytes", "machine_memory_bytes", "job_cpu_ns", "children_cpu_ns",
     "cores", "gpus": [...]}

Times are totals since the start of the process (the machine). Values that the kernel does not
provide are absent. Without ``/proc``, nothing is written. `gpus` is described in `nvml`.

Source: proc(5); Documentation/scheduler/sched-stats.rst for ``schedstat``;
Documentation/accounting/delay-accounting.rst; Documentation/accounting/psi.rst.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
import time

from stepwhy.record.core.clock import now_ns
from stepwhy.record.core.process.folder import append_lines
from stepwhy.record.sampling.cpu_budget import CpuBudget
from stepwhy.record.sampling.nvml import Gpus
from stepwhy.record.sampling.processes import PROC, Processes, observed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path
    from typing import Any, Self

    from stepwhy.record.sampling.stacks import StackSamplers

_COUNTED = {b"D": "disk_waits", b"S": "other_waits"}

COUNTERS_FILE = "counters.jsonl"
_TICK_S = 0.1
_SHORTEST_S = 0.5
# From `_SOON_S` on; what happens at the start of a run is gone by then.
_LATER_S = 1.0
# The interval grows with the run, so the log grows with its logarithm: 620 lines in the first ten
# minutes, some 5,000 in a month.
_SHARE_OF_RUN = 1 / 600
# So long, every tick looks whether stacks are to be sampled, soon after the traced windows; later
# when the resources are sampled, as each look takes 0.1 ms.
_SOON_S = 20.0
# Share of a core that reading /proc takes at most, however many threads and processes there are,
# and CPU time at the start: some 25 seconds of sampling at the shortest intervals, since what the
# main thread waits for shows only in many samples.
_MOST_OF_A_CORE = 1 / 1000
_AT_START_S = 0.1
_NS_PER_TICK = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_KIB = 1024
# Fields of /proc/stat's first line: user nice system idle iowait irq softirq steal.
_IDLE_FIELDS = (3, 4)
# Indices in `Processes.stat`: the man page counts from 1, and two fields come before.
_MINOR_FAULTS = 10 - 3
_MAJOR_FAULTS = 12 - 3
_USER, _SYSTEM = 14 - 3, 15 - 3
_CPU_TIMES = slice(14 - 3, 17 - 3 + 1)
_ENDED_CHILDREN = slice(16 - 3, 17 - 3 + 1)
_DISK_WAIT = 42 - 3
_PAGE = os.sysconf("SC_PAGE_SIZE")
_SWAPPED_IN = {b"pswpin": "machine_swapped_in_bytes"}
_MEMORY = {b"MemTotal:": "machine_memory_bytes"}
# Time in which all runnable tasks waited for a disk, or for memory, in microseconds.
_STALLED = re.compile(rb"^full .*total=(\d+)", re.MULTILINE)


class Sampler:
    """Samples every observed process of a run until it is stopped.

    Args:
        run_dir: The run directory.
        root: Id of the process that was started; it and its descendants are the job.
        proc: Folder of the proc file system.
        stacks: Stack samplers, called with every tick.
        gpus: The GPUs to sample; if None, those of this machine.
    """

    def __init__(
        self,
        run_dir: Path,
        root: int,
        proc: Path = PROC,
        stacks: StackSamplers | None = None,
        gpus: Gpus | None = None,
    ) -> None:
        self._stacks = stacks
        self._gpus = gpus
        self._run_dir = run_dir
        self._root = root
        self._processes = Processes(proc)
        self._waits = DiskWaits(self._processes)
        self._sampled: list[int] = []
        self._started: dict[Path, int | None] = {}
        self._budget = CpuBudget(_MOST_OF_A_CORE, _AT_START_S)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="stepwhy-sampler", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join(timeout=1)
        if self._stacks is not None:
            self._stacks.finish()

    def _loop(self) -> None:
        if self._gpus is None:
            self._gpus = Gpus.open() or Gpus.none()
        started_s = time.monotonic()
        due_s = started_s + _SHORTEST_S
        tick_s = _TICK_S
        while not self._stopped.wait(tick_s):
            now_s = time.monotonic()
            age_s = now_s - started_s
            grown_s = age_s * _SHARE_OF_RUN
            is_due = now_s >= due_s
            if is_due:
                shortest_s = _SHORTEST_S if age_s < _SOON_S else _LATER_S
                due_s = now_s + max(shortest_s, grown_s)
                self._spend_on(self.sample)
            if self._stacks is not None and (is_due or age_s < _SOON_S):
                self._spend_on(self._stacks.tick)
            self._spend_on(self.sample_waits)
            tick_s = max(_TICK_S, grown_s, self._budget.due_s() - age_s)
        self._gpus.close()

    def _spend_on(self, work: Callable[[], bool | None]) -> None:
        """Do some work; if it returns True, it has a budget of its own."""
        before_s = time.thread_time()
        if not work():
            self._budget.spent_s += time.thread_time() - before_s

    def sample(self) -> None:
        """Append one line for every observed process that is alive; never raises."""
        try:
            folders = self._alive()
            machine = self._machine() if folders else {}
            gpus = self._gpus.sample(list(folders), self._processes) if self._gpus else {}
        except Exception:
            return
        self._sampled = list(folders)
        for pid, folder in folders.items():
            # It may have ended meanwhile, or the disk is full: the next sample may do.
            with contextlib.suppress(Exception):
                self._write(folder, {**self._process(pid), **machine}, gpus.get(pid, []))

    def sample_waits(self) -> None:
        """Sample what the main threads of the processes wait for; never raises."""
        with contextlib.suppress(Exception):
            self._waits.sample(self._sampled)

    def _alive(self) -> dict[int, Path]:
        """The observed processes, without those whose id was reused."""
        alive = {}
        for pid, folder in observed(self._run_dir).items():
            began = self._processes.start_ticks(pid)
            if began is not None and began == self._started.setdefault(folder, began):
                alive[pid] = folder
        return alive

    def _write(self, folder: Path, values: dict[str, Any], gpus: list[dict[str, Any]]) -> None:
        about_gpus = {"gpus": gpus} if gpus else {}
        line = json.dumps({"time_ns": now_ns(), **values, **about_gpus})
        append_lines(folder / COUNTERS_FILE, [line])

    def _machine(self) -> dict[str, int]:
        """CPU time of the machine, of the job, and of the sampling itself."""
        ticks = [int(t) for t in self._processes.read("stat").split(b"\n", 1)[0].split()[1:9]]
        if not ticks:
            return {}
        busy = sum(t for i, t in enumerate(ticks) if i not in _IDLE_FIELDS)
        job = self._processes.descendants(self._root)
        own = set(self._processes.descendants(os.getpid())).difference(job)
        return {
            "machine_busy_ns": busy * _NS_PER_TICK,
            "job_cpu_ns": sum(map(self._cpu_ns, job)),
            "observer_cpu_ns": sum(map(self._cpu_ns, own)),
            "cores": os.cpu_count() or 1,
            **self._stalled("io", "machine_disk_stall_ns"),
            **self._stalled("memory", "machine_memory_stall_ns"),
            **_values(self._processes.read("vmstat"), _SWAPPED_IN, _PAGE),
            **_values(self._processes.read("meminfo"), _MEMORY, _KIB),
        }

    def _stalled(self, resource: str, name: str) -> dict[str, int]:
        """Time for which all tasks were stalled by a resource, ns; empty if unknown."""
        stalled = _STALLED.search(self._processes.read(f"pressure/{resource}"))
        return {name: int(stalled[1]) * 1000} if stalled else {}

    def _cpu_ns(self, pid: int) -> int:
        """CPU time of a process and its ended children, by the coarse but complete counter."""
        return sum(map(int, self._processes.stat(pid)[_CPU_TIMES])) * _NS_PER_TICK

    def _process(self, pid: int) -> dict[str, int]:
        """The resources that one process used so far.

        Raises:
            LookupError: It is gone.
        """
        stat = self._processes.stat(pid)
        run_ns = delay_ns = main_ns = 0
        threads = self._processes.threads(pid)
        for thread in threads:
            words = self._processes.read(f"{pid}/task/{thread}/schedstat").split()
            if len(words) >= 2:
                run_ns += int(words[0])
                delay_ns += int(words[1])
            if len(words) >= 2 and thread == str(pid):
                main_ns = int(words[0]) + int(words[1])
        ended = sum(map(int, stat[_ENDED_CHILDREN])) * _NS_PER_TICK
        return {
            **({"cpu_ns": run_ns, "run_delay_ns": delay_ns} if run_ns else {}),
            **({"main_ran_ns": main_ns} if main_ns else {}),
            "threads": len(threads),
            "user_ns": int(stat[_USER]) * _NS_PER_TICK,
            "system_ns": int(stat[_SYSTEM]) * _NS_PER_TICK,
            "children_cpu_ns": ended + sum(map(self._cpu_ns, self._processes.descendants(pid)[1:])),
            "minor_faults": int(stat[_MINOR_FAULTS]),
            "major_faults": int(stat[_MAJOR_FAULTS]),
            **self._memory(pid),
            **self._disk(pid, stat),
            **self._waits.values(pid),
        }

    def _memory(self, pid: int) -> dict[str, int]:
        names = {b"VmRSS:": "resident_bytes", b"VmSwap:": "swap_bytes"}
        return _values(self._processes.read(f"{pid}/status"), names, _KIB)

    def _disk(self, pid: int, stat: list[bytes]) -> dict[str, int]:
        """Bytes read and written, and how long the main thread was blocked on disks."""
        names = {b"read_bytes:": "disk_read_bytes", b"write_bytes:": "disk_written_bytes"}
        moved = _values(self._processes.read(f"{pid}/io"), names, 1)
        blocked = int(stat[_DISK_WAIT]) if len(stat) > _DISK_WAIT else 0
        # The counter stays 0 if the kernel does not account for delays. Kernels before 5.14 do not
        # show whether they do; on those, only a value above 0 is meaningful.
        accounts = self._processes.read("sys/kernel/task_delayacct").strip()
        if accounts == b"1" or (not accounts and blocked):
            moved["disk_wait_ns"] = blocked * _NS_PER_TICK
        return moved


def _values(text: bytes, names: dict[bytes, str], unit: int) -> dict[str, int]:
    """The values of the named lines 'name: number ...', times a unit."""
    return {
        names[words[0]]: int(words[1]) * unit
        for words in (line.split() for line in text.splitlines())
        if len(words) > 1 and words[0] in names
    }


class DiskWaits:
    """Counts of samples in which a main thread was waiting, by process.

    The kernel's own account of waits for disks (`disk_wait_ns`) is off by default. A thread that
    waits for a disk, or for a page of a mapped file, is in uninterruptible sleep; one that waits
    for another thread, in interruptible sleep. Short waits are missed more often than long ones,
    so readers use the proportion of both, and the time in which the thread was blocked.

    Source: proc(5), states 'D' and 'S'.

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
