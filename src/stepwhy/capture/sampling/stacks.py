"""Which source lines hold the training and its workers, sampled from outside by py-spy.

A thread of the job that reads frames needs the interpreter's lock, so it sees the driving thread
where that lets go of the lock, and never where it computes in Python; a watchdog without the lock
(`faulthandler`) can crash the job. py-spy reads the memory of the process from another process:
neither biased by the lock nor able to harm. In stretches of two seconds, the first right after the
traced windows and each later one after twice the time, it samples the process and its children
every 7 ms without pausing them; the samples of each stretch are counted and kept as `stacks.json`::

    {"schema", "stretches": [{"start_ns", "end_ns", "interval_ns", "samples": [
        {"role": "driver", "line": "train.py(12): augment", "leaf": "numpy", "count": 40}, ...]}]}

`role` is 'driver' for the main thread, 'worker' for the main threads of child processes and
'thread' for other threads that run code of the program. `line` is the innermost line of the
program's own code, `leaf` the package in which the thread was ('' for the program itself). Where a
line was called by an input pipeline, `entry` names what called it (`stack_lines.Place`). Paths
outside the program's folder are not kept: what py-spy writes goes into memory that both processes
share, and so is gone with them. Where py-spy is missing or the kernel does not let it look, there
is no file.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepwhy import children
from stepwhy.capture.clock import now_ns
from stepwhy.capture.process.folder import PROCESS_FILE, append_lines, encode, write_json
from stepwhy.capture.sampling.processes import PROC, Processes, observed
from stepwhy.capture.sampling.stack_lines import count_samples
from stepwhy.capture.user_code import UserFiles
from stepwhy.regular_files import read_regular

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import BinaryIO

    from stepwhy.capture.sampling.stack_lines import Place, Role

STACKS_FILE = "stacks.json"
SCHEMA = "stepwhy.stacks/2"
PERMISSION = "sudo sysctl kernel.yama.ptrace_scope=0 (container: --cap-add SYS_PTRACE)"

# A rate that does not lock onto a step of a round length.
_RATE_HZ = 141
_LOWEST_RATE_HZ = 11
_DURATION_S = 2
# py-spy takes some 7 % of a core per process at the full rate.
_PROCESSES_AT_FULL_RATE = 8
_MOST_PROCESSES = 200
_AT_ONCE = 2
# Windows that have not grown for so long are over.
_QUIET_S = 0.3
# A process without windows is sampled, too: when its first steps are over.
_WITHOUT_WINDOWS_S = 10.0
# One without a framework will have none, so that there is nothing to wait for.
_WITHOUT_FRAMEWORK_S = 1.0
# A stretch of a process with a few workers takes half a second of CPU time. The time between two
# stretches doubles, so an hour has ten: 0.2 % of a core.
_SHORTEST_PAUSE_S = 20.0
# Windows of long steps may grow one by one: none of them brings a stretch sooner than this.
_PAUSE_FOR_WINDOWS_S = 4.0
# A process that is about to end fails in ways of its own, and is gone at the next attempt.
_RETRY_S = 1.0
_MOST_FAILURES = 2
_MOST_LINES = 200
_MOST_ABOUT = 1 << 20  # bytes of a process.json, which has a few hundred
_END_S = 5.0  # py-spy ends at once when its process is gone

_REFUSED = (
    "the kernel did not let py-spy look at the training, so no line of the program is named. "
    f"To permit it: {PERMISSION}"
)
_UNREADABLE = (
    "py-spy could not read the stacks of this Python, so no line of the program is named. "
    "Update py-spy"
)


@dataclass(slots=True)
class _Target:
    """One observed process and what has been seen of it."""

    pid: int
    folder: Path
    began: int | None
    seen_s: float
    windows: int = 0
    grown_s: float = 0.0
    sampled_windows: int = 0
    due_s: float = 0.0
    running: _Stretch | None = None
    is_over: bool = False
    failures: int = 0
    ended_s: float = -_PAUSE_FOR_WINDOWS_S
    stretches: list[dict[str, Any]] = field(default_factory=list)

    def is_due(self, now_s: float) -> bool:
        """Whether the next stretch should begin."""
        if self.is_over or self.running is not None:
            return False
        if self.windows > self.sampled_windows:
            return now_s >= max(self.grown_s + _QUIET_S, self.ended_s + _PAUSE_FOR_WINDOWS_S)
        return now_s >= self.due_s


@dataclass(slots=True)
class _Stretch:
    """py-spy at work."""

    sampler: subprocess.Popen[bytes]
    raw: BinaryIO
    errors: BinaryIO
    about: dict[str, int]
    observed: frozenset[int]


class StackSamplers:
    """Starts py-spy for observed processes, again and again at growing intervals.

    Args:
        run_dir: The run directory.
        command: The command that runs; its script's folder is the program's.
        proc: Where the kernel shows its processes.
        clock: Seconds on a clock that never goes back.
    """

    def __init__(
        self,
        run_dir: Path,
        command: Sequence[str],
        proc: Path = PROC,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run_dir = run_dir
        self._files = UserFiles(program_folder(command))
        self._program = find_py_spy()
        self._processes = Processes(proc)
        self._clock = clock
        self._targets: dict[Path, _Target] = {}
        self._started = 0

    def look(self) -> None:
        """Begin the stretches that are due and keep those that have ended; never raises."""
        if self._program is None:
            return
        try:
            self._notice()
            for target in self._targets.values():
                if target.running is not None and target.running.sampler.poll() is not None:
                    self._end(target)
            for target in self._targets.values():
                busy = sum(t.running is not None for t in self._targets.values())
                if busy < _AT_ONCE and target.is_due(self._clock()):
                    self._begin(target)
        except Exception:
            return  # a folder that vanished, a full disk: the next look may do

    def _notice(self) -> None:
        """Take note of new processes and new windows."""
        now_s = self._clock()
        for pid, folder in observed(self._run_dir).items():
            if folder not in self._targets:
                began = self._processes.start_ticks(pid)
                wait_s = _WITHOUT_WINDOWS_S if _may_be_traced(folder) else _WITHOUT_FRAMEWORK_S
                self._targets[folder] = _Target(pid, folder, began, now_s, due_s=now_s + wait_s)
            target = self._targets[folder]
            windows = sum(1 for _ in (folder / "windows").glob("[0-9]*"))
            if windows > target.windows:
                target.windows, target.grown_s = windows, now_s

    def _is_alive(self, target: _Target) -> bool:
        """Whether the process still runs, and its id is not another's."""
        began = self._processes.start_ticks(target.pid)
        return began is not None and began == target.began

    def _begin(self, target: _Target) -> None:
        target.sampled_windows = target.windows
        if not self._is_alive(target):
            target.is_over = True
            return
        processes = len(self._processes.descendants(target.pid))
        rate_hz = _RATE_HZ
        if processes > _PROCESSES_AT_FULL_RATE:
            rate_hz = max(_LOWEST_RATE_HZ, _RATE_HZ * _PROCESSES_AT_FULL_RATE // processes)
        self._started += 1
        raw, errors = _memory_file(), _memory_file()
        others = frozenset(t.pid for t in self._targets.values())
        about = {"start_ns": now_ns(), "interval_ns": round(1e9 / rate_hz)}
        options = ["--format", "raw", "--idle", "--nonblocking", "--threads", "--full-filenames"]
        if 1 < processes <= _MOST_PROCESSES:
            options.append("--subprocesses")
        amount = ["--duration", str(_DURATION_S), "--rate", str(rate_hz)]
        sampler = children.start(
            [
                *(str(self._program), "record", *options, *amount),
                *("--pid", str(target.pid), "--output", f"/proc/self/fd/{raw.fileno()}"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            pass_fds=[raw.fileno()],
        )
        target.running = _Stretch(sampler, raw, errors, about, others)

    def _end(self, target: _Target) -> None:
        """Count what a stretch has seen, or say why it has seen nothing."""
        stretch, now_s = target.running, self._clock()
        if stretch is None:
            return
        target.running, target.ended_s = None, now_s
        target.due_s = now_s + max(_SHORTEST_PAUSE_S, now_s - target.seen_s)
        with stretch.raw, stretch.errors:
            if not stretch.sampler.returncode:
                self._count(target, stretch)
            elif self._is_alive(target):
                self._fail(target, _content(stretch.errors).lower())
            else:
                target.is_over = True

    def _fail(self, target: _Target, errors: bytes) -> None:
        """Leave the reason, once per process, for the person."""
        target.failures += 1
        if b"permission denied" in errors or b"not permitted" in errors:
            target.is_over = True
            _say(target.folder, "stack-access", _REFUSED)
        elif target.failures >= _MOST_FAILURES:
            target.is_over = True
            _say(target.folder, "stacks-unreadable", _UNREADABLE)
        else:
            target.due_s = self._clock() + _RETRY_S

    def _count(self, target: _Target, stretch: _Stretch) -> None:
        text = _content(stretch.raw).decode(errors="replace")
        found = count_samples(text, target.pid, self._files, stretch.observed)
        if not found:
            return
        about = {**stretch.about, "end_ns": now_ns(), "samples": list(_most(found))}
        target.stretches.append(about)
        write_json(target.folder / STACKS_FILE, {"schema": SCHEMA, "stretches": target.stretches})

    def finish(self) -> None:
        """Wait for the samplers and keep what they saw; never raises."""
        for target in self._targets.values():
            try:
                if target.running is not None:
                    target.running.sampler.wait(_END_S)
                    self._end(target)
            except subprocess.TimeoutExpired:
                self._stop(target)
            except Exception:  # noqa: S112 - a folder that vanished, a full disk
                continue

    def _stop(self, target: _Target) -> None:
        if target.running is not None:
            target.running.sampler.kill()
            target.running.sampler.wait()


def _memory_file() -> BinaryIO:
    """A file without a name, which no other program can open.

    Source: memfd_create(2); py-spy runs only where that is.
    """
    return os.fdopen(os.memfd_create("stepwhy-stacks"), "rb+")


def _content(file: BinaryIO) -> bytes:
    """All that another process wrote into a file of ours."""
    file.seek(0)
    return file.read()


def _most(counts: Counter[Place]) -> Iterator[dict[str, Any]]:
    """The most frequent places; all others of a role in one without a line, so that shares hold."""
    kept = counts.most_common(_MOST_LINES)
    for place, count in kept:
        about = place._asdict()
        yield {**{key: about[key] for key in about if key != "entry" or about[key]}, "count": count}
    rest: Counter[Role] = Counter()
    for place, count in (counts - Counter(dict(kept))).items():
        rest[place.role] += count
    for role, count in rest.items():
        yield {"role": role, "line": "", "leaf": "", "count": count}


def _say(folder: Path, slug: str, text: str) -> None:
    line = encode({"level": "warning", "slug": slug, "text": text})
    append_lines(folder / "messages.jsonl", [line])


def _may_be_traced(folder: Path) -> bool:
    """Whether an observed process trains with a framework; it may only tell its steps."""
    try:
        about = json.loads(read_regular(folder / PROCESS_FILE, _MOST_ABOUT))
    except (OSError, ValueError):
        return True
    return bool(about.get("framework", True))


def find_py_spy() -> Path | None:
    """The py-spy that was installed with stepwhy, or the one on the path."""
    beside = Path(sys.executable).with_name("py-spy")
    if beside.is_file():
        return beside
    found = children.find_program("py-spy")
    return Path(found) if found else None


def program_folder(command: Sequence[str]) -> str:
    """The folder of the script that a command runs; the current one where it names none."""
    script = next((Path(word) for word in command if word.endswith(".py")), None)
    return str(script.resolve().parent if script is not None else Path.cwd())
