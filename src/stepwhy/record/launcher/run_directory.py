"""The run directory: created before the training, closed after it.

`stepwhy run` and `stepwhy.watch` share this. Observed processes add their directories to it.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import stepwhy
from stepwhy.base.errors import CaptureError
from stepwhy.base.redaction.commands import redact_command
from stepwhy.base.regular_files import read_regular
from stepwhy.record import RUN_DIR_VARIABLE, SAMPLER_VARIABLE
from stepwhy.record.core import forks, registry
from stepwhy.record.core.clock import now_ns
from stepwhy.record.core.process.folder import write_json
from stepwhy.record.core.registry import ATTACHED_FILE
from stepwhy.record.launcher.checkout import checkout
from stepwhy.record.launcher.no_steps import why_no_step
from stepwhy.record.sampling import ptrace
from stepwhy.record.windows import profiler_conflicts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Enough for the lines of the first processor; those of all may take a megabyte.
_ENOUGH = 1 << 13  # bytes
_NAMES = ("model name", "Model", "cpu model", "cpu")  # x86, ARM boards, MIPS, POWER

_COUNTERS = Path("/proc/vmstat")

RUN_SCHEMA = "stepwhy.run/1"
_RUN_FILE = "run.json"
_MOST_MESSAGES = 1 << 20  # bytes; an observer writes a few sentences
# Why no window could be opened at some time.
_WAITED = {profiler_conflicts.SLUG, forks.SLUG}
_INITIAL_ENVIRONMENT = Path("/proc/self/environ")
_CTYPE = "LC_CTYPE"
_COERCED = ("C.UTF-8", "C.utf8", "UTF-8")
# The reports of so many processes fit into the first block of the file, even on a full disk.
_MOST_PROCESSES = 16
_BOOTSTRAP = Path(__file__).resolve().parents[1] / "bootstrap"


class Run:
    """A run directory that is being written.

    Args:
        out_dir: Its path; it must not hold a run yet.
        command: Program and arguments; kept without secrets.
        beside: If it holds a run, use `out_dir-2` or the next free name.

    Attributes:
        path: The run directory, absolute.

    Raises:
        CaptureError: It holds a run already, or cannot be written.
    """

    def __init__(self, out_dir: Path, command: Sequence[str], *, beside: bool = False) -> None:
        self.path = Path(out_dir).absolute()
        self._about = {
            "schema": RUN_SCHEMA,
            "stepwhy": stepwhy.__version__,
            "command": redact_command(command),
            "started_ns": now_ns(),
            "ended_ns": None,
            "exit_code": None,
            "python": platform.python_version(),
            "cpu": processor_model(),
            **checkout(command),
        }
        self._kills = OomKills()
        self._why_no_step = ""
        try:
            while not self._claim():
                if not beside:
                    raise CaptureError(
                        f"{self.path} already holds a run", "Name another directory with --out"
                    )
                self.path = next_name(self.path, Path(out_dir).name)
            self._make()
        except OSError as error:
            raise CaptureError(
                f"the run directory {self.path} cannot be written: {error.strerror}",
                "Name a writable directory with --out",
            ) from error

    def _claim(self) -> bool:
        """Make the directory; whether it is this run's, not that of another that just began."""
        self.path.mkdir(parents=True, exist_ok=True)
        try:
            (self.path / _RUN_FILE).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def _make(self) -> None:
        """Write what is known so far, and the file in which processes register."""
        try:
            write_json(self.path / _RUN_FILE, self._about)
            (self.path / ATTACHED_FILE).unlink(missing_ok=True)
            (self.path / ATTACHED_FILE).touch(exist_ok=False)
        except OSError:
            self.undo()
            raise

    def end(self, exit_code: int) -> tuple[str, ...]:
        """Write how the run ended; a failure is no error, since the training has run.

        Args:
            exit_code: That of the training.

        Returns:
            Messages for the user.
        """
        about: dict[str, Any] = {**self._about, "ended_ns": now_ns(), "exit_code": exit_code}
        about["oom_kills"] = self._kills.count()
        about["processes"] = dict(list(registry.reports(self.path).items())[:_MOST_PROCESSES])
        about["why_no_step"] = self._why_no_step
        # Unfinished windows of killed processes may contain full paths.
        for draft in self.path.glob("process-*/windows/.[0-9]*"):
            shutil.rmtree(draft, ignore_errors=True)
        try:
            # In this order: on a full disk, the room of that file may be all there is.
            (self.path / ATTACHED_FILE).unlink(missing_ok=True)
            write_json(self.path / _RUN_FILE, about, in_place=True)
        except OSError as error:
            if self.path.is_dir():
                return (f"the end of the run could not be recorded: {error.strerror}",)
        return ()

    def undo(self) -> None:
        """Delete what was written, and the directory if it is empty then."""
        try:
            (self.path / _RUN_FILE).unlink(missing_ok=True)
            (self.path / ATTACHED_FILE).unlink(missing_ok=True)
            self.path.rmdir()
        except OSError:
            pass

    def why_no_step(self, exit_code: int) -> str:
        """Why nothing was observed; also kept for the run's file. Call before `end`.

        Args:
            exit_code: That of the training.
        """
        try:
            attached = (self.path / ATTACHED_FILE).stat().st_size > 0
        except OSError:
            attached = False
        reports = registry.reports(self.path)
        self._why_no_step = why_no_step(exit_code, reports, attached=attached)
        return self._why_no_step


def next_name(path: Path, first: str) -> Path:
    """The next name: 'run', 'run-2', 'run-3', ..."""
    number = path.name.removeprefix(f"{first}-")
    return path.with_name(f"{first}-{int(number) + 1 if number.isdecimal() else 2}")


def environment(run_dir: Path, sampler: int = 0) -> dict[str, str]:
    """The environment in which Python processes are observed, with the bootstrap on the path.

    Args:
        run_dir: The run directory, absolute.
        sampler: Id of the process that samples stacks, or starts the one that does; 0 for none.
    """
    before = os.environ.get("PYTHONPATH")
    path = f"{_BOOTSTRAP}{os.pathsep}{before}" if before else str(_BOOTSTRAP)
    asks = sampler and ptrace.scope() == ptrace.ANCESTORS_ONLY
    named = {SAMPLER_VARIABLE: str(sampler)} if asks else {}
    return {**plain_environment(), "PYTHONPATH": path, RUN_DIR_VARIABLE: str(run_dir), **named}


def plain_environment(initial: Path = _INITIAL_ENVIRONMENT) -> dict[str, str]:
    """The environment that this program was started in.

    In the C locale, Python sets LC_CTYPE for itself (PEP 538); its children must not inherit that.

    Args:
        initial: File in which the kernel shows the environment at the start.
    """
    found = dict(os.environ)
    if found.get(_CTYPE) in _COERCED:
        with contextlib.suppress(OSError):
            if not any(w.startswith(b"LC_CTYPE=") for w in initial.read_bytes().split(b"\0")):
                del found[_CTYPE]
    return found


def messages_of(run_dir: Path) -> list[str]:
    """The messages of a run's observers, once each.

    Why no window could be opened at some time is left out if the process has one after all.
    """
    logs = sorted(run_dir.glob("process-*/messages.jsonl"))
    return list(dict.fromkeys(text for log in logs for text in _texts(log)))


def _texts(path: Path) -> Iterator[str]:
    """The texts of one process's messages; a torn last line is ignored."""
    traced = any((path.parent / "windows").glob("[0-9]*"))
    try:
        lines = read_regular(path, _MOST_MESSAGES).decode().split("\n")
    except (OSError, UnicodeDecodeError):
        return
    for line in lines:
        try:
            message = json.loads(line)
            if not (traced and message.get("slug") in _WAITED):
                yield str(message["text"])
        except (ValueError, KeyError, TypeError, AttributeError):
            continue


class OomKills:
    """Counts how often the kernel kills a process of this machine for lack of memory, from here on.

    Source: proc(5), ``oom_kill`` in ``/proc/vmstat``, from Linux 4.13 on.

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


def processor_model(described: Path = Path("/proc/cpuinfo")) -> str:
    """The model of the processor; its architecture if the model is unknown.

    Args:
        described: File in which Linux describes the processors.

    Source: proc_cpuinfo(5).
    """
    try:
        with described.open("rb") as file:
            text = file.read(_ENOUGH).decode(errors="replace")
    except OSError:
        return platform.machine()
    pairs = (line.partition(":") for line in text.splitlines())
    fields = {key.strip(): " ".join(value.split()) for key, _, value in reversed(list(pairs))}
    return next(filter(None, map(fields.get, _NAMES)), "") or platform.machine()
