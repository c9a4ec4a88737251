"""The run directory as such: made before the training, closed after it.

`stepwhy run` and `stepwhy.watch` share it; observed processes put their folders into it.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import stepwhy
from stepwhy.capture import profiler_conflicts
from stepwhy.capture.attach import LOOKER_VARIABLE, RUN_DIR_VARIABLE
from stepwhy.capture.clock import now_ns
from stepwhy.capture.launcher.no_steps import why_no_step
from stepwhy.capture.launcher.oom_kills import MemoryKills
from stepwhy.capture.process import registry
from stepwhy.capture.process.folder import write_json
from stepwhy.capture.process.registry import ATTACHED_FILE
from stepwhy.capture.sampling import ptrace
from stepwhy.errors import CaptureError
from stepwhy.redaction.commands import redact_command
from stepwhy.regular_files import read_regular

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

RUN_SCHEMA = "stepwhy.run/1"
_RUN_FILE = "run.json"
_MOST_MESSAGES = 1 << 20  # bytes; an observer says a few sentences
_INITIAL_ENVIRONMENT = Path("/proc/self/environ")
_CTYPE = "LC_CTYPE"
_COERCED = ("C.UTF-8", "C.utf8", "UTF-8")
# What processes left word of fits into the first block of the file, which a full disk has left.
_MOST_PROCESSES = 16
_BOOTSTRAP = Path(__file__).resolve().parents[1] / "bootstrap"


class Run:
    """A run directory that is being written.

    Args:
        out_dir: Where; it must not hold a run yet.
        command: Program and arguments; kept without secrets.
        beside: Where it holds a run, write `out_dir-2` or the next name that is free.

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
        }
        self._kills = MemoryKills()
        self._why_no_step = ""
        try:
            while not self._claim():
                if not beside:
                    raise CaptureError(
                        f"{self.path} already holds a run", "Name another directory with --out"
                    )
                self.path = _next_name(self.path, Path(out_dir).name)
            self._make()
        except OSError as error:
            raise CaptureError(
                f"the run directory {self.path} cannot be written: {error.strerror}",
                "Name a writable directory with --out",
            ) from error

    def _claim(self) -> bool:
        """Make the directory; whether it is this run's, and no other's that began just now."""
        self.path.mkdir(parents=True, exist_ok=True)
        try:
            (self.path / _RUN_FILE).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def _make(self) -> None:
        """Write what is known, and the file in which processes sign in."""
        try:
            write_json(self.path / _RUN_FILE, self._about)
            (self.path / ATTACHED_FILE).unlink(missing_ok=True)
            (self.path / ATTACHED_FILE).touch(exist_ok=False)
        except OSError:
            self.undo()
            raise

    def end(self, exit_code: int) -> tuple[str, ...]:
        """Write how it ended; the training has run, so that a failure is no error.

        Args:
            exit_code: The training's own.

        Returns:
            What the person should know.
        """
        about = {**self._about, "ended_ns": now_ns(), "exit_code": exit_code}
        about["oom_kills"] = self._kills.count()
        about["processes"] = dict(list(registry.words(self.path).items())[:_MOST_PROCESSES])
        about["why_no_step"] = self._why_no_step
        self._clear_drafts()
        try:
            # In this order: what the file took may be all that is free on a full disk.
            (self.path / ATTACHED_FILE).unlink(missing_ok=True)
            write_json(self.path / _RUN_FILE, about, in_place=True)
        except OSError as error:
            if self.path.is_dir():
                return (f"the end of the run could not be recorded: {error.strerror}",)
        return ()

    def _clear_drafts(self) -> None:
        """Remove windows that a killed process has begun: whole paths may stand in them."""
        for draft in self.path.glob("process-*/windows/.[0-9]*"):
            shutil.rmtree(draft, ignore_errors=True)

    def undo(self) -> None:
        """Take back what was written; the directory goes if that was all."""
        try:
            (self.path / _RUN_FILE).unlink(missing_ok=True)
            (self.path / ATTACHED_FILE).unlink(missing_ok=True)
            self.path.rmdir()
        except OSError:
            pass

    def why_no_step(self, exit_code: int) -> str:
        """Why nothing was observed, which is kept in the run's file, too; known until the end.

        Args:
            exit_code: The training's own.
        """
        try:
            attached = (self.path / ATTACHED_FILE).stat().st_size > 0
        except OSError:
            attached = False
        words = registry.words(self.path)
        self._why_no_step = why_no_step(exit_code, words, attached=attached)
        return self._why_no_step


def _next_name(path: Path, first: str) -> Path:
    """The name after 'run' is 'run-2', then 'run-3'."""
    number = path.name.removeprefix(f"{first}-")
    return path.with_name(f"{first}-{int(number) + 1 if number.isdecimal() else 2}")


def environment(run_dir: Path, looker: int = 0) -> dict[str, str]:
    """The environment in which Python processes are observed: the bootstrap goes first.

    Args:
        run_dir: The run directory, absolute.
        looker: Id of the process that samples stacks, or starts what does; 0 where none does.
    """
    before = os.environ.get("PYTHONPATH")
    path = f"{_BOOTSTRAP}{os.pathsep}{before}" if before else str(_BOOTSTRAP)
    asks = looker and ptrace.scope() == ptrace.ANCESTORS_ONLY
    named = {LOOKER_VARIABLE: str(looker)} if asks else {}
    return {**plain_environment(), "PYTHONPATH": path, RUN_DIR_VARIABLE: str(run_dir), **named}


def plain_environment(initial: Path = _INITIAL_ENVIRONMENT) -> dict[str, str]:
    """The environment that this program was started in.

    In the C locale, Python sets LC_CTYPE for itself (PEP 538), which is not meant for what it
    starts.

    Args:
        initial: Where the kernel shows the environment at the start.
    """
    found = dict(os.environ)
    if found.get(_CTYPE) in _COERCED:
        with contextlib.suppress(OSError):
            if not any(w.startswith(b"LC_CTYPE=") for w in initial.read_bytes().split(b"\0")):
                del found[_CTYPE]
    return found


def said(run_dir: Path) -> list[str]:
    """What the observers of a run's processes have to say, once each.

    That a window had to wait for the training's own profiler is left out where there is one.
    """
    logs = sorted(run_dir.glob("process-*/messages.jsonl"))
    return list(dict.fromkeys(text for log in logs for text in _texts(log)))


def _texts(path: Path) -> Iterator[str]:
    """The texts of one process's messages; a torn last line is dropped."""
    traced = any((path.parent / "windows").glob("[0-9]*"))
    try:
        lines = read_regular(path, _MOST_MESSAGES).decode().split("\n")
    except (OSError, UnicodeDecodeError):
        return
    for line in lines:
        try:
            message = json.loads(line)
            if not (traced and message.get("slug") == profiler_conflicts.SLUG):
                yield str(message["text"])
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
