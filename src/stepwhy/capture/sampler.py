"""What the job's processes cost the machine, sampled from outside: nothing runs inside the job.

The launcher waits for the training anyway; beside that, a thread of it reads ``/proc`` of every
process that signed in with a process directory, and appends to its ``counters.jsonl``::

    {"time_ns", "cpu_ns", "run_delay_ns", "resident_bytes", "swap_bytes", "major_faults",
     "threads", "machine_busy_ns", "job_cpu_ns", "cores"}

Times are totals since the process (the machine) started. A value that the kernel does not give is
absent. Where there is no ``/proc``, nothing is written.

Source: proc(5); Documentation/scheduler/sched-stats.rst for ``schedstat``.
"""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

from stepwhy.capture.clock import now_ns
from stepwhy.capture.process_folder import append_lines, process_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from stepwhy.capture.stacks import StackSamplers

COUNTERS_FILE = "counters.jsonl"
_SHORTEST_S = 0.5
# The interval grows with the run, so the log grows with its logarithm: 600 lines in the first ten
# minutes, some 5,000 in a month.
_SHARE_OF_RUN = 1 / 600
_PROC = Path("/proc")
_NS_PER_TICK = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_KIB = 1024
# Fields of /proc/stat's first line: user nice system idle iowait irq softirq steal.
_IDLE_FIELDS = (3, 4)


class Sampler:
    """Samples every observed process of a run until it is stopped.

    Args:
        run_dir: The run directory.
        root: Id of the process that was started; all its descendants are the job.
        proc: Where the kernel shows its processes.
        stacks: Takes its turn with every sample, and is finished with the sampler.
    """

    def __init__(
        self, run_dir: Path, root: int, proc: Path = _PROC, stacks: StackSamplers | None = None
    ) -> None:
        self._stacks = stacks
        self._run_dir = run_dir
        self._root = root
        self._proc = proc
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
        started_ns = now_ns()
        interval_s = _SHORTEST_S
        while not self._stopped.wait(interval_s):
            self.sample()
            if self._stacks is not None:
                self._stacks.look()
            interval_s = max(_SHORTEST_S, (now_ns() - started_ns) / 1e9 * _SHARE_OF_RUN)

    def sample(self) -> None:
        """Append one line for every observed process that is alive; never raises."""
        try:
            machine = self._machine()
            for folder in self._run_dir.glob("process-*"):
                values = self._process(process_id(folder))
                if values:
                    line = json.dumps({"time_ns": now_ns(), **values, **machine})
                    append_lines(folder / COUNTERS_FILE, [line])
        except (OSError, ValueError):
            pass  # a process that ended meanwhile, a full disk: the next sample may do

    def _machine(self) -> dict[str, int]:
        """CPU time of the whole machine, and of the job in it."""
        ticks = [int(t) for t in _read(self._proc / "stat").split(b"\n", 1)[0].split()[1:9]]
        if not ticks:
            return {}
        busy = sum(t for i, t in enumerate(ticks) if i not in _IDLE_FIELDS)
        return {
            "machine_busy_ns": busy * _NS_PER_TICK,
            "job_cpu_ns": sum(self._cpu_ns(pid) for pid in self._job()),
            "cores": os.cpu_count() or 1,
        }

    def _job(self) -> Iterator[int]:
        """The started process and its descendants that are alive."""
        waiting = [self._root]
        while waiting:
            pid = waiting.pop()
            yield pid
            for task in self._tasks(pid):
                waiting += [int(child) for child in _read(task / "children").split()]

    def _tasks(self, pid: int) -> list[Path]:
        try:
            return list((self._proc / str(pid) / "task").iterdir())
        except OSError:
            return []

    def _cpu_ns(self, pid: int) -> int:
        """CPU time of a process, its ended children included, by the coarse but complete count."""
        # The name in parentheses may hold spaces; the numbers begin behind it.
        fields = _read(self._proc / str(pid) / "stat").rpartition(b")")[2].split()
        return sum(int(t) for t in fields[11:15]) * _NS_PER_TICK

    def _process(self, pid: int) -> dict[str, int]:
        """What one process used so far; {} when it is gone."""
        run_ns = delay_ns = threads = 0
        for task in self._tasks(pid):
            schedstat = _read(task / "schedstat").split()
            if len(schedstat) >= 2:
                run_ns += int(schedstat[0])
                delay_ns += int(schedstat[1])
            threads += 1
        if not threads:
            return {}
        values = {"cpu_ns": run_ns, "run_delay_ns": delay_ns} if run_ns else {}
        stat = _read(self._proc / str(pid) / "stat").rpartition(b")")[2].split()
        return {**values, "threads": threads, "major_faults": int(stat[9]), **self._memory(pid)}

    def _memory(self, pid: int) -> dict[str, int]:
        status = _read(self._proc / str(pid) / "status")
        wanted = {b"VmRSS:": "resident_bytes", b"VmSwap:": "swap_bytes"}
        return {
            wanted[words[0]]: int(words[1]) * _KIB
            for words in (line.split() for line in status.splitlines())
            if words and words[0] in wanted
        }


def _read(path: Path) -> bytes:
    """A file of /proc, b'' when its process is gone."""
    try:
        return path.read_bytes()
    except OSError:
        return b""
