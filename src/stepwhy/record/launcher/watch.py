"""Observe a block of the running program, such as a notebook cell or a function.

`stepwhy run` prepares a program from outside, before it starts; a `WatchedBlock` does the same from
inside. It makes the run directory, instruments the frameworks, starts the helper that samples from
outside, and at its end deactivates the observers. Processes started inside the block are observed,
too.
"""

from __future__ import annotations

import os
import sys
from datetime import datetime
from typing import TYPE_CHECKING

from stepwhy.base.errors import CaptureError
from stepwhy.record import RUN_DIR_VARIABLE, attach, explicit_steps
from stepwhy.record.core.process import lifetime
from stepwhy.record.launcher.command import default_run_dir
from stepwhy.record.launcher.run_directory import Run, environment, messages_of
from stepwhy.record.sampling import ptrace
from stepwhy.record.sampling.helper import SamplingHelper

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_NO_LOOP = (
    "no training loop was seen in the block: no torch optimizer took a step, and no backward(), "
    "session, Keras fit, tf.function or jitted JAX function ran often enough. Call stepwhy.step() "
    "once per step"
)
_FAILED = "the block ended with an exception before a training step could be timed"
_VANISHED = "the run directory vanished during the block, so nothing was recorded"
_INSIDE_RUN = (
    "this program runs under 'stepwhy run', which observes it as a whole: the block does nothing"
)
_INSIDE_BLOCK = "another block is being watched, and includes this one, which does nothing"
# A loop of short blocks may begin more than one per second.
_MOST_IN_A_SECOND = 100

_open: list[WatchedBlock] = []


class WatchedBlock:
    """One observed block of this process.

    Args:
        out: The run directory; by default as for `stepwhy run`.

    Attributes:
        is_idle: Whether it does nothing because the process is observed already.
        is_over: Whether it has ended.
        messages: Messages for the user.
    """

    def __init__(self, out: Path | None) -> None:
        self._out = out
        self._run: Run | None = None
        self._pid = os.getpid()
        self._before: dict[str, str | None] = {}
        self._helper: SamplingHelper | None = None
        self.is_idle = self.is_over = False
        self.messages: list[str] = []

    @property
    def run_dir(self) -> Path | None:
        """The run directory, absolute; None if nothing is observed."""
        return self._run.path if self._run is not None else None

    def begin(self) -> None:
        """Observe from here on, unless the process is observed already; never raises."""
        if _open or RUN_DIR_VARIABLE in os.environ:
            self.is_idle = True
            self.messages.append(_INSIDE_BLOCK if _open else _INSIDE_RUN)
            return
        try:
            self._begin()
        except CaptureError as error:
            self._give_up(f"nothing is observed: {error.what}")
        except Exception as error:
            self._give_up(f"nothing is observed, for {type(error).__name__} at the start")

    def _give_up(self, text: str) -> None:
        """Run the body unobserved."""
        self.messages.append(text)
        self._close()
        if self._run is not None:
            self._run.undo()
        self._run = None

    def _begin(self) -> None:
        # That of a notebook's kernel does not name the notebook.
        command = ["notebook"] if "ipykernel" in sys.modules else list(sys.orig_argv)
        self._run = _make_run(self._out, command)
        _open.append(self)
        # Before the environment changes, so that the helper is not observed.
        self._helper = SamplingHelper(self._run.path, command)
        self._set(environment(self._run.path, self._helper.helper_id))
        ptrace.allow_sampler()
        lifetime.begin(self._run.path)
        attach.attach()
        explicit_steps.begin()

    def _set(self, environ: dict[str, str]) -> None:
        """Set environment variables, so that child processes are observed, too."""
        for name, value in environ.items():
            if os.environ.get(name) != value:
                self._before[name] = os.environ.get(name)
                os.environ[name] = value

    def end(self, exit_code: int) -> bool:
        """Stop observing; never raises.

        Args:
            exit_code: How the block ended, as a process would have.

        Returns:
            Whether there is something to explain; never in a fork that leaves its parent's block.
        """
        self.is_over = True
        if os.getpid() != self._pid:
            self._leave()
            return False
        try:
            return self._run is not None and self._end(self._run, exit_code)
        except Exception as error:
            self.messages.append(f"the end of the block failed: {type(error).__name__}")
            return False

    def _end(self, run: Run, exit_code: int) -> bool:
        self._close()
        seen = any(run.path.glob("process-*"))
        why = _FAILED if exit_code else _NO_LOOP
        messages = messages_of(run.path) if seen else [why if run.path.is_dir() else _VANISHED]
        self.messages += [*messages, *run.end(exit_code)]
        return seen

    def _close(self) -> None:
        """Undo the preparations."""
        self._leave()
        if self._helper is not None:
            self.messages += self._helper.end()

    def _leave(self) -> None:
        """Stop observing this process."""
        explicit_steps.end()
        lifetime.end()
        if self in _open:
            _open.remove(self)
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _make_run(out: Path | None, command: Sequence[str]) -> Run:
    """Make the run directory; a default one gets a free name.

    Raises:
        CaptureError: It cannot be written, or holds a run already.
    """
    if out is not None:
        return Run(out, command)
    default = default_run_dir(command, datetime.now().astimezone())
    names = (default.with_name(f"{default.name}-{n}") for n in range(2, _MOST_IN_A_SECOND))
    path = next((p for p in (default, *names) if not p.exists()), default)
    return Run(path, command)
