"""Explanations and exports that the page asks for: in processes of their own, one at a time."""

from __future__ import annotations

import queue
import subprocess
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

import msgspec

from stepwhy.base import children, output
from stepwhy.base.errors import OutputError
from stepwhy.base.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

# Explaining gigabytes takes minutes.
_LONGEST_S = 1800.0
_MOST_WAITING = 10_000
_EXPLAIN, _COMMAND = "stepwhy.engine.present", "stepwhy"
_LONGEST_REASON = 500


class Job(msgspec.Struct, frozen=True):
    """The last explanation of a run that was asked for.

    Args:
        state: Its state.
        reason: Why it failed.
    """

    state: Literal["waiting", "running", "done", "failed"]
    reason: str = ""


class Jobs:
    """Runs one process at a time.

    Args:
        changed: Called after each explanation.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._states: dict[str, Job] = {}
        self._waiting: queue.Queue[tuple[str, Path] | None] = queue.Queue(_MOST_WAITING)
        self._turn = threading.Lock()
        self._kill: Callable[[], None] | None = None
        self._closed = False
        self._thread: threading.Thread | None = None

    def explain(self, name: str, run_dir: Path) -> None:
        """Explain a run as soon as those before it are done; once, if it is waiting already.

        Args:
            name: Name of the entry.
            run_dir: Absolute path of the run directory.
        """
        if self.is_busy(name):
            return
        with suppress(queue.Full):
            self._states[name] = Job("waiting")
            self._waiting.put_nowait((name, run_dir))
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="jobs", daemon=True)
            self._thread.start()

    def state(self, name: str) -> Job | None:
        """The last explanation of an entry that was asked for; None if there is none."""
        return self._states.get(name)

    def is_busy(self, name: str) -> bool:
        """Whether an entry waits to be explained, or is being explained."""
        job = self.state(name)
        return job is not None and job.state in {"waiting", "running"}

    def unfinished(self) -> int:
        """Number of explanations that are not done."""
        return sum(map(self.is_busy, list(self._states)))

    def export(self, run_dir: Path, file: Path) -> None:
        """Write the timeline of a run for Perfetto, and wait for it.

        Args:
            run_dir: Absolute path of the run directory.
            file: The file.

        Raises:
            OutputError: It cannot be written.
        """
        words = ("export", str(run_dir), "--to", "perfetto", "--out", str(file))
        reason = self._run(children.module_command(_COMMAND, *words))
        if reason or not file.is_file():
            raise OutputError(f"no timeline: {reason}", "Explain the run to see what is missing")

    def close(self) -> None:
        """End the process that is running, and start no other one."""
        self._closed = True
        with suppress(queue.Full):
            self._waiting.put_nowait(None)
        if self._kill is not None:
            self._kill()
        if self._thread is not None:
            self._thread.join(timeout=5)

    def _work(self) -> None:
        while (task := self._waiting.get()) is not None and not self._closed:
            name, run_dir = task
            self._states[name] = Job("running")
            reason = self._run(children.module_command(_EXPLAIN, str(run_dir)))
            self._states[name] = Job("failed", reason) if reason else Job("done")
            self._changed()

    def _run(self, command: Sequence[str]) -> str:
        """Run a process when no other one runs; why it failed, or ''."""
        with self._turn:
            if self._closed:
                return "the server is being ended"
            try:
                return self._run_now(command)
            except (OSError, ValueError) as error:
                return f"the process cannot be started: {error}"
            finally:
                self._kill = None

    def _run_now(self, command: Sequence[str]) -> str:
        process = children.start(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the server, which ends it
        )
        self._kill = process.kill
        try:
            out, error = process.communicate(timeout=_LONGEST_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return f"it took more than {_LONGEST_S / 60:.0f} minutes"
        if process.returncode == 0:
            return ""
        said = out[-_LONGEST_REASON:].decode(errors="replace").strip()
        said = said or error[-_LONGEST_REASON:].decode(errors="replace").strip()
        return one_line(output.public(said)) or f"it ended with {process.returncode}"
