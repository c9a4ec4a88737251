"""Running one program, alone or under `stepwhy run`, and what it left behind."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
import uuid
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_MARK = "HARM_RUN"
_POLL_S = 0.2
# Workers notice that their parent has ended, which takes them seconds.
_LEAVE_S = 20
_TICKS = os.sysconf("SC_CLK_TCK")
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended, and what it left.

    Args:
        code: Its exit code, -n for signal n.
        output: What it printed to standard output.
        files: Checksums of the files it wrote, by name; numbers in names are `#`.
        left: Processes that were still there seconds later.
        cpu_s: CPU time of all its processes, s.
        wall_s: From start to end, s.
        is_signalled: Whether the condition's signal was sent before the end.
    """

    code: int
    output: list[str]
    files: dict[str, str]
    left: int
    cpu_s: float
    wall_s: float
    is_signalled: bool = False


@dataclass(frozen=True, slots=True)
class Condition:
    """What a program, or `stepwhy run`, is exposed to.

    Args:
        name: For people.
        stream: File descriptor of the standard stream that cannot be used, if there is one.
        state: How it is: 'closed', 'full' (a device without space) or 'broken' (no reader).
        number: A signal that is sent in the middle of the work; 0 for none.
        disk: Where the run directory goes: 'free', 'full' or 'read-only'.
    """

    name: str
    stream: int | None = None
    state: str = ""
    number: int = 0
    disk: str = "free"

    @property
    def affects_program(self) -> bool:
        """Whether the program meets it without stepwhy, too."""
        return bool(self.number) or self.stream is not None


CONDITIONS = (
    Condition("undisturbed"),
    Condition("SIGUSR1", number=signal.SIGUSR1),
    Condition("SIGTERM", number=signal.SIGTERM),
    Condition("stderr closed", 2, "closed"),
    Condition("stderr full", 2, "full"),
    Condition("stderr broken", 2, "broken"),
    Condition("disk full", disk="full"),
    Condition("folder read-only", disk="read-only"),
    Condition("stdin closed", 0, "closed"),
    Condition("stdout closed", 1, "closed"),
    Condition("stdout full", 1, "full"),
    Condition("stdout broken", 1, "broken"),
)


class NotPossibleError(Exception):
    """A condition that this machine or user cannot make; it counts as not tried."""


@contextlib.contextmanager
def run_dir_on(disk: str, folder: Path) -> Iterator[Path]:
    """A run directory to be made: here, or on a disk that is full or cannot be written.

    Raises:
        NotPossibleError: File systems cannot be mounted here.
    """
    if disk == "free":
        yield folder
        return
    mount = folder.with_suffix(".mounted")
    mount.mkdir(parents=True)
    options = "size=64k" if disk == "full" else "ro"
    words = ["mount", "-t", "tmpfs", "-o", options, "harm", str(mount)]
    if subprocess.run(words, capture_output=True, check=False).returncode:
        raise NotPossibleError("only root can mount a file system")
    try:
        yield mount / "run"
    finally:
        subprocess.run(["umount", "--lazy", str(mount)], check=True)


def execute(  # noqa: PLR0917 - one run
    words: Sequence[str],
    folder: Path,
    condition: Condition,
    environment: dict[str, str],
    after_cpu_s: float = 0,
    leave_s: float = _LEAVE_S,
) -> Ended:
    """Run a command in an empty folder until it has ended, with all that it started.

    Args:
        words: The command.
        folder: To run it in; made anew.
        condition: What it is exposed to, except for the disk.
        environment: Variables beyond those of this process.
        after_cpu_s: CPU time after which the condition's signal is sent, s.
        leave_s: How long what it started may stay after its end, s.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    mark = uuid.uuid4().hex
    variables = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **environment, _MARK: mark}
    started_s = time.monotonic()
    output = folder.with_suffix(".out")
    with _streams(condition, output) as streams:
        is_closed = condition.state == "closed"
        start = ["sh", "-c", f'exec "$@" {condition.stream}>&-', "sh"] if is_closed else []
        process = subprocess.Popen(
            [*start, *words],
            cwd=folder,
            env=variables,
            stdin=streams[0],
            stdout=streams[1],
            stderr=streams[2],
            process_group=0,
        )
    is_signalled, cpu_s = _wait(process, mark, condition.number, after_cpu_s)
    left = _left(mark, leave_s)
    return Ended(
        process.returncode,
        output.read_text(errors="replace").splitlines(),
        dict(_files(folder)),
        left,
        cpu_s,
        time.monotonic() - started_s,
        is_signalled,
    )


@contextlib.contextmanager
def _streams(condition: Condition, output: Path) -> Iterator[list[int]]:
    """Descriptors for standard input, output (the file) and error; a closed one is still open."""
    with contextlib.ExitStack() as cleanup:

        def opened(path: str | Path, flags: int) -> int:
            descriptor = os.open(path, flags, 0o600)
            cleanup.callback(os.close, descriptor)
            return descriptor

        write = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        errors = output.with_suffix(".err")
        found = [opened(os.devnull, os.O_RDONLY), opened(output, write), opened(errors, write)]
        if condition.stream is not None and condition.state == "full":
            found[condition.stream] = opened("/dev/full", os.O_WRONLY)
        elif condition.stream is not None and condition.state == "broken":
            reader, found[condition.stream] = os.pipe()
            os.close(reader)
            cleanup.callback(os.close, found[condition.stream])
        yield found


def _wait(
    process: subprocess.Popen[bytes], mark: str, number: int, after_cpu_s: float
) -> tuple[bool, float]:
    """Wait for the end, and send the signal on the way; whether it was sent, and CPU seconds."""
    is_signalled, flags = False, os.WNOHANG if number else 0
    while True:
        pid, status, usage = os.wait4(process.pid, flags)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return is_signalled, usage.ru_utime + usage.ru_stime
        if _cpu_s(mark) >= after_cpu_s:
            process.send_signal(number)
            is_signalled, flags = True, 0
        else:
            time.sleep(_POLL_S)


def _marked(mark: str) -> Iterator[int]:
    """Processes that have this mark in their environment."""
    wanted = f"{_MARK}={mark}".encode()
    for path in Path("/proc").iterdir():
        if path.name.isdecimal():
            with contextlib.suppress(OSError):
                if wanted in (path / "environ").read_bytes().split(b"\0"):
                    yield int(path.name)


def _cpu_s(mark: str) -> float:
    """CPU time of the living processes with this mark, s."""
    total = 0
    for pid in _marked(mark):
        with contextlib.suppress(OSError, IndexError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += sum(map(int, fields[11:15]))  # its own, and of ended children
    return total / _TICKS


def _left(mark: str, leave_s: float) -> int:
    """How many processes stay for seconds after the end; they are ended."""
    deadline_s = time.monotonic() + leave_s
    while (left := _there(mark)) and time.monotonic() < deadline_s:
        time.sleep(_POLL_S)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return len(left)


def _there(mark: str) -> list[int]:
    """The processes with a mark.

    While a process starts another program, it has no environment for a moment. So it is gone only
    if it is not seen a second time, either.
    """
    found = list(_marked(mark))
    if not found:
        time.sleep(_POLL_S)
        found = list(_marked(mark))
    return found


def _files(folder: Path) -> Iterator[tuple[str, str]]:
    """The files below a folder, and the checksums of their contents."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            name = _NUMBER.sub("#", str(path.relative_to(folder)))
            yield name, hashlib.sha256(path.read_bytes()).hexdigest()


def steps_seen(run_dir: Path) -> list[int]:
    """How many steps the log of each process holds: steps, or calls of what is called per step."""
    return sorted(
        count for path in run_dir.glob("process-*/steps.jsonl") if (count := _steps(path))
    )


def _steps(path: Path) -> int:
    counts: Counter[Any] = Counter()
    for text in path.read_text().splitlines():
        try:
            line = json.loads(text)
        except ValueError:  # torn by a kill or a full disk
            continue
        if line["kind"] in {"step", "run", "call"}:
            counts[line["kind"], line.get("signature")] += 1
    steps = sum(count for (kind, _), count in counts.items() if kind == "step")
    return steps or max(counts.values(), default=0)


@dataclass(frozen=True, slots=True)
class Reference:
    """What a program does alone, as far as it does the same each time.

    Args:
        first: One run.
        second: Another one.
    """

    first: Ended
    second: Ended

    def same_output(self, ended: Ended) -> bool:
        """Whether a run printed the same, apart from numbers that change from run to run."""
        if len(ended.output) != len(self.first.output):
            return False
        lines = zip(self.first.output, self.second.output, ended.output, strict=False)
        return all(_alike(*three) for three in lines)

    def same_files(self, ended: Ended) -> bool:
        """Whether a run left the same files, and the same in those that do not change."""
        if set(ended.files) != set(self.first.files):
            return False
        fixed = {
            name for name, sum_ in self.first.files.items() if self.second.files.get(name) == sum_
        }
        return all(ended.files[name] == self.first.files[name] for name in fixed)


def _alike(first: str, second: str, other: str) -> bool:
    if first == second:
        return other == first
    return re.sub(r"[\d.e+-]+", "#", other) == re.sub(r"[\d.e+-]+", "#", first)
