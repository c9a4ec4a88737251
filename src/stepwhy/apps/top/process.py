"""The numbers of one process of a run, as its logs grow."""

from __future__ import annotations

from stepwhy.apps.top.follower import LogFollower
from stepwhy.apps.top.steps import StepMeter, is_amount, members
from stepwhy.base.regular_files import read_regular
from stepwhy.record.core.process.folder import PROCESS_FILE
from stepwhy.show.metrics.model import Process, Queue, Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

_MOST_PROCESS_FILE = 1 << 20  # bytes; it has some hundred
_MOST_QUEUES = 64
# A sample is current for twice the interval of `stepwhy.record.sampling.sampler`, whose share of
# the run this is, and some seconds for a busy machine.
_SHARE_OF_RUN = 2 / 600
_CURRENT_NS = 10 * 10**9


class LiveProcess:
    """Follows the logs of one process.

    Args:
        folder: Its folder in the run directory.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / PROCESS_FILE
        self._logs = {name: LogFollower(folder, name) for name in ("steps", "levels", "counters")}
        self._meter = StepMeter()
        self._queues: dict[tuple[str, str], Queue] = {}
        self._usage: Usage | None = None
        self._first_sample_ns = 0
        self._framework: str | None = None
        self._rank: int | None = None

    @property
    def step_time_ns(self) -> int:
        """Wall time of its steps so far."""
        return self._meter.steps().total_ns

    def read(self, time_ns: int) -> Process:
        """The numbers so far.

        Args:
            time_ns: The time, on the clock of the logs.
        """
        if self._framework is None:
            self._read_file()
        self._meter.add(self._logs["steps"].new_lines())
        for line in self._logs["levels"].new_lines():
            self._add_level(members(line))
        for line in self._logs["counters"].new_lines():
            self._add_sample(members(line))
        process = Process(
            self._framework or "",
            self._rank,
            queues=tuple(self._queues.values()),
            usage=self._usage if self._is_current(time_ns) else None,
        )
        return process if self._logs["steps"].is_lost else self._add_steps(process)

    def _add_steps(self, process: Process) -> Process:
        steps = self._meter.steps()
        if not steps.count:
            return process
        durations = steps.unprofiled.durations()
        return process._replace(
            steps=steps.count,
            durations=durations if durations.total else None,
            input_wait_ns=steps.input_wait_ns if steps.waits else None,
            observed_ns=steps.observed_ns if steps.waits else None,
            last_step_ns=steps.last_end_ns,
        )

    def _is_current(self, time_ns: int) -> bool:
        """Whether the last sample shows what the process uses now; it may have ended."""
        if self._usage is None:
            return False
        age_ns = self._usage.time_ns - self._first_sample_ns
        return time_ns - self._usage.time_ns <= _CURRENT_NS + age_ns * _SHARE_OF_RUN

    def _read_file(self) -> None:
        """Read the framework and rank, once the file is there."""
        try:
            about = members(read_regular(self._file, _MOST_PROCESS_FILE))
        except OSError:
            return
        framework, rank = about.get("framework"), about.get("rank")
        self._framework = framework if isinstance(framework, str) else ""
        self._rank = rank if is_amount(rank) else None

    def _add_level(self, level: dict[str, Any]) -> None:
        name, kind, time_ns = level.get("name"), level.get("kind"), level.get("time_ns")
        value, capacity = level.get("value"), level.get("capacity")
        if not (isinstance(name, str) and isinstance(kind, str)):
            return
        key = (name, kind)
        has_room = key in self._queues or len(self._queues) < _MOST_QUEUES
        if has_room and is_amount(value) and is_amount(time_ns):
            known = capacity if is_amount(capacity) else None
            self._queues[key] = Queue(name, kind, value, known, time_ns)

    def _add_sample(self, sample: dict[str, Any]) -> None:
        if not is_amount(sample.get("time_ns")):
            return
        keys = ("resident_bytes", "swap_bytes", "cpu_ns")
        values = {k: sample[k] for k in keys if is_amount(sample.get(k))}
        self._usage = Usage(sample["time_ns"], **values, gpu_bytes=_gpus(sample.get("gpus")))
        self._first_sample_ns = self._first_sample_ns or sample["time_ns"]


def _gpus(gpus: Any) -> dict[int, int]:
    """Memory in use by the index of the GPU; empty if the driver does not report it."""
    found = [gpu for gpu in gpus if isinstance(gpu, dict)] if isinstance(gpus, list) else []
    return {
        gpu["index"]: gpu["used_bytes"]
        for gpu in found
        if is_amount(gpu.get("index")) and is_amount(gpu.get("used_bytes"))
    }
