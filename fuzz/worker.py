"""The process that judges inputs, under limits; and the other end of its pipe.

It may crash, hang or run out of memory: the process that drives it notices, and starts another.
"""

from __future__ import annotations

import gc
import os
import resource
import signal
import tempfile
import time
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from multiprocessing.connection import wait
from pathlib import Path
from typing import TYPE_CHECKING

from fuzz.inputs import make
from fuzz.judge import Judge, Outcome, seconds_for, size_of
from fuzz.targets import TARGETS
from stepwhy.read.inputs import memory

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

    from fuzz.formats import Files

    Judged = Callable[[Files, Path], Outcome]
    Allowed = Callable[[int], float]

# Address space beyond that at the start; what needs more has failed long before.
_MOST_BYTES = 3 << 30
# A process that has grown by this much is replaced: caches hold what damaged inputs said.
_LARGEST_BYTES = 700 << 20
_TICKS = os.sysconf("SC_CLK_TCK")
_POLL_S = 0.5
# Making the seeds of a format can take this long.
_FIRST_S = 300.0
# Wall time over CPU time, for a process that waits for something that never comes; and at least, s.
_WAITING = 20
_LEAST_WAIT_S = 60


@dataclass(frozen=True, slots=True)
class Batch:
    """Inputs `first`, `first + 1`, ... of a format."""

    format: str
    seed: int
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class Single:
    """One input that is at hand, of a format or target."""

    format: str
    files: Files


def scratch() -> str | None:
    """Where files of a moment belong: in memory, if the system has such a place."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108


@cache
def _judge_of(name: str) -> Judged:
    """What judges inputs of a format or target; one for all formats."""
    return TARGETS[name].judge() if name in TARGETS else Judge() if not name else _judge_of("")


def _serve(pipe: Connection, judged: Judged | None) -> None:
    """Judge what comes through the pipe, an outcome for each input, until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()
    # To ask what memory is left takes longer than to refuse most inputs.
    memory.available_bytes = cache(memory.available_bytes)
    with tempfile.TemporaryDirectory(dir=scratch()) as folder:
        while (task := pipe.recv()) is not None:
            judge = judged or _judge_of(task.format)
            if isinstance(task, Batch):
                for index in range(task.first, task.first + task.count):
                    _answer(pipe, judge, make(task.format, task.seed, index), Path(folder))
            else:
                _answer(pipe, judge, task.files, Path(folder))


def _answer(pipe: Connection, judged: Judged, files: Files, folder: Path) -> None:
    pipe.send(size_of(files))
    _limit()
    pipe.send(judged(files, folder))


def _limit() -> None:
    """Bound the address space, once this process has loaded all that it needs."""
    if resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + _MOST_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


class Worker:
    """A process that judges, as the one that drives it sees it.

    Args:
        judged: What judges an input; by default what its format or target has.
        allowed: CPU seconds that an input of a size may take.
    """

    def __init__(self, judged: Judged | None = None, allowed: Allowed = seconds_for) -> None:
        self._allowed = allowed
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, judged), daemon=True)
        self._process.start()
        theirs.close()
        self._limit_s = _FIRST_S
        self.is_alive = True
        self._began()

    def _began(self) -> None:
        self._cpu_s, self._wall_s = self._cpu_now(), time.monotonic()

    def _cpu_now(self) -> float:
        try:
            stat = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(stat[11]) + int(stat[12])) / _TICKS

    def send(self, task: Batch | Single) -> None:
        """Begin a task; of a batch, every input is answered."""
        self._began()
        self._limit_s = _FIRST_S
        self.pipe.send(task)

    def receive(self) -> Outcome | None:
        """The next outcome, if it is there: of a process that is gone or hangs, that it has."""
        try:
            while self.pipe.poll():
                message = self.pipe.recv()
                self._began()
                if isinstance(message, Outcome):
                    self._limit_s = self._allowed(0)
                    return message
                self._limit_s = self._allowed(message)
        except (EOFError, ConnectionResetError):
            self._process.join()
            return self._gone(f"crash ({self._process.exitcode})")
        if self._cpu_now() - self._cpu_s > self._limit_s + 1:
            return self._gone("hang")
        if time.monotonic() - self._wall_s > max(_WAITING * self._limit_s, _LEAST_WAIT_S):
            return self._gone("wait")
        return None

    def _gone(self, what: str) -> Outcome:
        self.is_alive = False
        return Outcome("failed", what, f"after {time.monotonic() - self._wall_s:.0f} s")

    def judge(self, files: Files, name: str = "") -> Outcome:
        """The outcome of one input of a target; without a name, of a format."""
        self.send(Single(name, files))
        while (outcome := self.receive()) is None:
            wait([self.pipe], _POLL_S)
        return outcome

    @property
    def is_worn(self) -> bool:
        """Whether its memory has grown so much that it had better be replaced."""
        try:
            pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        except (OSError, IndexError):
            return True
        return pages * resource.getpagesize() > _LARGEST_BYTES

    def stop(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self._process.join()
        self.pipe.close()
