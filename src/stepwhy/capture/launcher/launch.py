"""Starting a training command with the observer in place, and waiting for its end."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepwhy.capture.launcher.child import Child, shell_code, wait_for
from stepwhy.capture.launcher.run_directory import Run, environment, said
from stepwhy.capture.launcher.signals import ENDING, signals_of_program
from stepwhy.capture.launcher.survivors import survivors
from stepwhy.capture.recorder import STOPPED
from stepwhy.errors import CaptureError
from stepwhy.whole_files import create

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from typing import Any

    from stepwhy.capture.launcher.proxy import StandIn
    from stepwhy.capture.launcher.signals import Received, Signals

_VANISHED = (
    "the run directory vanished while the training ran, so nothing was kept. Name one with --out "
    "that the training leaves alone"
)

_UNOBSERVED = "{}. The command runs unobserved, and nothing is recorded. {} next time"

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
        code: Its exit code as a program sees it: -n when signal n ended it.
        asked_to_end_s: When a program, not a key, first asked it to end, on the monotonic clock, s;
            None when none did.
    """

    exit_code: int
    run_dir: Path
    messages: tuple[str, ...]
    code: int = 0
    asked_to_end_s: float | None = None


def launch(
    command: Sequence[str],
    out_dir: Path,
    *,
    show_status: bool = False,
    output: Path | None = None,
    place: StandIn | None = None,
) -> Launch:
    """Run a command to its end, observed, with this process's standard streams.

    Args:
        command: Program and arguments.
        out_dir: The run directory to write; it must not hold a run yet.
        show_status: Tell in the terminal's title how the training goes.
        output: A file for what the command prints; it reads nothing then. None: the streams are
            this process's own.
        place: The place of the command, where this process does nothing else.

    Returns:
        How it ended and where the run directory is.

    Raises:
        CaptureError: When the directory cannot be written or the command cannot be started. In
            both cases nothing has run. In the place of a command, a directory that cannot be
            written is no error: the command replaces this process, unobserved, and where the
            directory holds a run, `out_dir-2` is written.
    """
    if not command:
        raise CaptureError("there is no command to run", "Pass a script, or -- and a command")
    run = _open_run(command, out_dir, place)
    signals = place.signals if place else signals_of_program()
    waiting = _Waiting(signals)
    with contextlib.nullcontext() if place else signals, _streams(output) as streams:
        child = _start(command, run, place, streams)
        signals.started(child.pid)
        if place:
            place.give_up_files()
        failures, observers = _observe(run, command, child.pid, show_status=show_status)
        code = waiting.wait_for(child)
        failures += _close(observers)
    messages = (*_end(run, shell_code(code)), *failures)
    return Launch(shell_code(code), run.path, messages, code, waiting.asked_to_end_s)


def _open_run(command: Sequence[str], out_dir: Path, place: StandIn | None) -> Run:
    """The run directory. A job that has waited in a queue is not refused for the lack of one."""
    if place is None:
        return Run(out_dir, command)
    try:
        run = Run(out_dir, command, beside=True)
    except CaptureError as error:
        place.say(f"stepwhy: {_UNOBSERVED.format(error.what, error.todo)}")
    else:
        if run.path.name != out_dir.name:
            place.say(f"stepwhy: {out_dir} already holds a run, so this one goes to {run.path}")
        return run
    try:
        place.become(command)
    except (OSError, ValueError) as error:
        raise _cannot_start(command, error) from error


@contextlib.contextmanager
def _streams(output: Path | None) -> Iterator[dict[str, Any]]:
    """Where a command's standard streams go, as arguments of `Popen`."""
    if output is None:
        yield {}
        return
    with create(output) as file:
        yield {"stdin": subprocess.DEVNULL, "stdout": file, "stderr": subprocess.STDOUT}


def _start(
    command: Sequence[str], run: Run, place: StandIn | None, streams: dict[str, Any]
) -> Child:
    """Start the command with all that was inherited for it: files, signal mask, environment."""
    restore = place.restore_in_child if place else None
    try:
        process = subprocess.Popen(  # noqa: S603 - what we were asked
            list(command),
            env=environment(run.path, os.getpid()),
            close_fds=False,
            preexec_fn=restore,  # noqa: PLW1509 - in the place of a command: one thread
            **streams,
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        run.undo()
        raise _cannot_start(command, error) from error
    return Child(process)


def _cannot_start(command: Sequence[str], error: Exception) -> CaptureError:
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return CaptureError(
        f"{command[0]!r} cannot be started: {reason}", "Check the command, or pass a Python script"
    )


def _observe(
    run: Run, command: Sequence[str], pid: int, *, show_status: bool
) -> tuple[list[str], contextlib.ExitStack]:
    """Sample the command's processes from outside; the training runs whatever comes of it.

    Returns:
        What failed, and what ends the observation.
    """
    observers = contextlib.ExitStack()
    try:
        # Loaded while the command starts; it would have to wait for them before.
        from stepwhy.capture.launcher.status import Status
        from stepwhy.capture.sampling.sampler import Sampler
        from stepwhy.capture.sampling.stacks import StackSamplers

        if show_status:
            observers.enter_context(Status(run.path))
        observers.enter_context(Sampler(run.path, pid, stacks=StackSamplers(run.path, command)))
    except Exception as error:
        return [_failure("nothing was sampled from outside", error)], observers
    return [], observers


def _close(observers: contextlib.ExitStack) -> list[str]:
    """End the observation from outside; what failed."""
    try:
        observers.close()
    except Exception as error:
        return [_failure("the last samples are missing", error)]
    return []


class _Waiting:
    """Waits for the command, and remembers whether a program asked it to end."""

    def __init__(self, signals: Signals) -> None:
        self._signals = signals
        self.asked_to_end_s: float | None = None

    def wait_for(self, child: Child) -> int:
        def receive(received: Received) -> None:
            child.receive(received)
            asked = received.number in ENDING and not received.is_from_terminal
            if asked and self.asked_to_end_s is None:
                self.asked_to_end_s = time.monotonic()

        code = wait_for(child, self._signals, receive)
        return 0 if code is None else code


def _end(run: Run, exit_code: int) -> list[str]:
    """Close the run directory; what the person should know."""
    texts: list[str] = []
    try:
        texts += _messages(run, exit_code)
    except Exception as error:
        texts.append(_failure("what the observers said could not be read", error))
    try:
        texts += run.end(exit_code)
    except Exception as error:
        texts.append(_failure("the end of the run could not be recorded", error))
    return texts


def _failure(what: str, error: Exception) -> str:
    return f"{what}: {type(error).__name__}: {error}"


def _messages(run: Run, exit_code: int) -> Iterator[str]:
    """What the person should know: nothing observed, or what the observers said, once each."""
    if not run.path.is_dir():
        yield _VANISHED
        return
    left = survivors(run.path)
    texts = said(run.path)
    if left:
        yield _LEFT_BEHIND.format(pids=", ".join(map(str, left)))
    elif not _logged(run.path):
        stopped = [text for text in texts if text.startswith(STOPPED)]
        if exit_code or stopped or not texts:
            yield run.why_no_step(exit_code)
        # That a log could not be written has been said.
        texts = [text for text in texts if text not in stopped]
    yield from texts


def _logged(run_dir: Path) -> bool:
    """Whether any step was written down."""
    return any(log.stat().st_size for log in run_dir.glob("process-*/steps*.jsonl"))
