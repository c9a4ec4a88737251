"""Starting a training command with the observer in place, and waiting for its end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from stepwhy.capture.run_file import Run, environment, said
from stepwhy.capture.survivors import survivors
from stepwhy.errors import CaptureError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from types import FrameType
    from typing import Any

_SIGNAL_BASE = 128  # a shell's exit code for signal n is 128 + n

# A terminal sends these to the whole foreground group: the child has them already.
_FROM_TERMINAL = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
_FORWARDED = (*_FROM_TERMINAL, signal.SIGTERM)

_NOT_ATTACHED = (
    "the observer was never loaded: the command does not start Python 3.11 or later, or starts it "
    "with -I, -E or -S, or in an environment of its own (sudo, env -i, a container, a machine). "
    "Start the training with an interpreter that reads PYTHONPATH"
)
_NO_LOOP = (
    "no training loop was seen: no torch optimizer took a step, and no session, Keras fit, "
    "tf.function or jitted JAX function ran often enough. Check that the command trains with one "
    "of them, or call stepwhy.step() once per step in the program"
)
_VANISHED = (
    "the run directory vanished while the training ran, so nothing was kept. Name one with --out "
    "that the training leaves alone"
)

_LEFT_BEHIND = (
    "the command has ended, but processes that it started still run ({pids}). What they log is "
    "explained when you ask again"
)


@dataclass(frozen=True, slots=True)
class Launch:
    """A training command that has ended.

    Args:
        exit_code: The command's own; 128 + n when signal n ended it.
        run_dir: The run directory, absolute.
        messages: What the person should know about the observation, one sentence or more each.
    """

    exit_code: int
    run_dir: Path
    messages: tuple[str, ...]


def launch(
    command: Sequence[str],
    out_dir: Path,
    *,
    show_status: bool = False,
    output: Path | None = None,
) -> Launch:
    """Run a command to its end, observed, with this process's standard streams.

    Args:
        command: Program and arguments.
        out_dir: The run directory to write; it must not hold a run yet.
        show_status: Tell in the terminal's title how the training goes.
        output: A file for what the command prints; it reads nothing then. None: the streams are
            this process's own.

    Returns:
        How it ended and where the run directory is.

    Raises:
        CaptureError: When the directory cannot be written or the command cannot be started. In
            both cases nothing has run.
    """
    if not command:
        raise CaptureError("there is no command to run", "Pass a script, or -- and a command")
    run = Run(out_dir, command)
    exit_code = _run(command, run, show_status=show_status, output=output)
    messages = (*_messages(run), *run.end(exit_code))
    return Launch(exit_code, run.path, messages)


@contextlib.contextmanager
def _streams(output: Path | None) -> Iterator[dict[str, Any]]:
    """Where a command's standard streams go, as arguments of `Popen`."""
    if output is None:
        yield {}
        return
    with output.open("wb") as file:
        yield {"stdin": subprocess.DEVNULL, "stdout": file, "stderr": subprocess.STDOUT}


def _run(command: Sequence[str], run: Run, *, show_status: bool, output: Path | None) -> int:
    """Start the command, forward signals, wait; its exit code as a shell would give it."""
    with _Forwarding() as forwarding, _streams(output) as streams:
        try:
            observed = environment(run.path, os.getpid())
            child = subprocess.Popen(list(command), env=observed, **streams)  # noqa: S603
        except (OSError, ValueError) as error:
            run.undo()
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise CaptureError(
                f"{command[0]!r} cannot be started: {reason}",
                "Check the command, or pass a Python script",
            ) from error
        forwarding.to(child)
        # While the command starts; it would have to wait for them before.
        from stepwhy.capture.sampler import Sampler
        from stepwhy.capture.stacks import StackSamplers
        from stepwhy.capture.status import Status

        stacks = StackSamplers(run.path, command)
        with Sampler(run.path, child.pid, stacks=stacks), contextlib.ExitStack() as shown:
            if show_status:
                shown.enter_context(Status(run.path))
            code = child.wait()
    return _SIGNAL_BASE - code if code < 0 else code


class _Forwarding:
    """Passes signals on to the child while it runs, as if it had been started alone."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._early: list[int] = []
        self._before: dict[int, Callable[[int, FrameType | None], Any] | int | None] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in _FORWARDED:
                # An ignored signal (nohup) stays ignored, here and in the child.
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def to(self, child: subprocess.Popen[bytes]) -> None:
        """Forward to this child from here on, and what came before it was there."""
        self._child = child
        for number in self._early:
            child.send_signal(number)

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        """Handle one signal."""
        if number in _FROM_TERMINAL and _in_foreground():
            return
        if self._child is None:
            self._early.append(number)
        else:
            self._child.send_signal(number)


def _in_foreground() -> bool:
    """Whether a terminal's keys reach this process group, and so the child, directly."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def _messages(run: Run) -> Iterator[str]:
    """What the person should know: nothing observed, or what the observers said, once each."""
    if not run.path.is_dir():
        yield _VANISHED
        return
    left = survivors(run.path)
    if left:
        yield _LEFT_BEHIND.format(pids=", ".join(map(str, left)))
    elif not any(run.path.glob("process-*")):
        yield _NO_LOOP if run.signed_in() else _NOT_ATTACHED
    yield from said(run.path)
