"""Sample what the main thread of a training does before its first step.

Most programs take their first step within seconds. py-spy samples a process that takes longer,
until its first step is logged. A slow start lasts long, so a low rate is enough.
"""

from __future__ import annotations

import signal
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepwhy.record.core import registry
from stepwhy.record.core.clock import now_ns
from stepwhy.record.sampling.py_spy import content, record
from stepwhy.record.sampling.stack_lines import count_startup

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from stepwhy.record.core.user_code import UserFiles
    from stepwhy.record.sampling.processes import Processes
    from stepwhy.record.sampling.py_spy import Recording
    from stepwhy.record.sampling.stack_lines import Place

# Importing a framework takes as long as this.
_PATIENCE_S = 3.0
# One percent of a core, at a rate that does not resonate with anything regular.
_RATE_HZ = 23
_LONGEST_S = 1800
# A launcher and its first ranks. Later processes are workers, which take no steps.
_MOST_PROCESSES = 4
# Where the kernel requires it, a process permits the sampling once it has imported its framework.
_RETRY_S = 5.0
_MOST_ATTEMPTS = 6
_END_S = 5.0


@dataclass(slots=True)
class _Process:
    """A Python process of the run that has taken no step so far."""

    due_s: float
    attempts: int = 0
    running: Recording | None = None
    is_over: bool = False


class StartupSamplers:
    """Starts py-spy for processes that take long until their first step.

    Args:
        run_dir: The run directory.
        files: Identifies the program's files.
        program: py-spy.
        processes: Reads `/proc`.
        clock: Monotonic clock in seconds.

    Attributes:
        changes: Number of recordings that began or ended so far.
    """

    def __init__(
        self,
        run_dir: Path,
        files: UserFiles,
        program: Path,
        processes: Processes,
        clock: Callable[[], float],
    ) -> None:
        self._run_dir = run_dir
        self._files = files
        self._program = program
        self._proc = processes
        self._clock = clock
        self._processes: dict[int, _Process] = {}
        self.changes = 0

    def tick(
        self, stepping: Mapping[int, Path]
    ) -> Iterator[tuple[Path, dict[str, int], Counter[Place]]]:
        """Begin what is due, and end it for processes that have taken a step.

        Args:
            stepping: Directories of the processes that have taken a step, by process id.

        Yields:
            Directory, times and samples of each process whose start-up is over.
        """
        for pid in registry.registered(self._run_dir):
            self._processes.setdefault(pid, _Process(self._clock() + _PATIENCE_S))
        for pid, process in self._processes.items():
            if process.running is not None:
                if pid in stepping:
                    process.running.sampler.send_signal(signal.SIGINT)
                if process.running.sampler.poll() is not None:
                    yield from self._end(pid, process, stepping)
            elif pid in stepping:
                process.is_over = True
            elif not process.is_over and self._clock() >= process.due_s:
                self._begin(pid, process)

    def _begin(self, pid: int, process: _Process) -> None:
        begun = sum(other.attempts > 0 for other in self._processes.values())
        is_new = not process.attempts
        if self._proc.start_ticks(pid) is None or (is_new and begun >= _MOST_PROCESSES):
            process.is_over = True
            return
        process.attempts += 1
        self.changes += 1
        process.running = record(self._program, pid, _RATE_HZ, _LONGEST_S, heeds_signals=True)

    def _end(
        self, pid: int, process: _Process, stepping: Mapping[int, Path]
    ) -> Iterator[tuple[Path, dict[str, int], Counter[Place]]]:
        recording, process.running = process.running, None
        if recording is None:
            return
        self.changes += 1
        with recording.raw, recording.errors:
            has_failed = recording.sampler.returncode != 0
            text = content(recording.raw).decode(errors="replace")
        process.due_s = self._clock() + _RETRY_S
        process.is_over = not has_failed or process.attempts >= _MOST_ATTEMPTS
        found = count_startup(text, pid, self._files)
        if found and pid in stepping:
            yield stepping[pid], {**recording.about, "end_ns": now_ns()}, found

    def finish(
        self, stepping: Mapping[int, Path]
    ) -> Iterator[tuple[Path, dict[str, int], Counter[Place]]]:
        """End everything; the arguments and results are those of `tick`."""
        for pid, process in self._processes.items():
            if process.running is None:
                continue
            process.running.sampler.send_signal(signal.SIGINT)
            try:
                process.running.sampler.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.running.sampler.kill()
                process.running.sampler.wait()
            yield from self._end(pid, process, stepping)
