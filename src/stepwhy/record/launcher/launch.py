"""Start a training command with the observer in place, and wait for it to end."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stepwhy.base.errors import CaptureError
from stepwhy.base.whole_files import create
from stepwhy.record import RUN_DIR_VARIABLE
from stepwhy.record.core.recorder import STOPPED
from stepwhy.record.launcher.child import Child, shell_code, wait_for
from stepwhy.record.launcher.run_directory import Run, environment, messages_of
from stepwhy.record.launcher.signals import ENDING, signals_of_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from stepwhy.record.launcher.proxy import CommandProxy
    from stepwhy.record.launcher.signals import Received, Signals

    Publish = Callable[[Path, Callable[[str], None]], contextlib.AbstractContextManager[object]]

_PROC = Path("/proc")
# Servers of multiprocessing need a moment to notice that the command has ended.
_GRACE_S = 0.5
_POLL_S = 0.02
# Tracks shared memory and forks no process, so it has nothing to log.
# Source: CPython, Lib/multiprocessing/resource_tracker.py, `ensure_running`.
_TRACKER = b"from multiprocessing.resource_tracker import main"

_VANISHED = (
    "the run directory vanished while the training ran, so nothing was recorded. Name one with "
    "--out that the training does not touch"
)

_UNOBSERVED = "{}. The command runs unobserved, and nothing is recorded"

_LEFT_BEHIND = (
    "the command has ended, but processes that it started still run ({pids}). To include what they "
    "log, explain the run again later"
)


@dataclass(frozen=True, slots=True)
class Launch:
    """A training command that has ended.

    Args:
        exit_code: The command's own; 128 + n when signal n ended it.
        run_dir: The run directory, absolute.
        messages: Messages for the user about the observation, one sentence or more each.
        code: Its exit code as a program sees it: -n when signal n ended it.
        asked_to_end_s: When a program, not a key, first asked it to end, on the monotonic clock, s;
            None if none did.
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
    proxy: CommandProxy | None = None,
    variables: Mapping[str, str] | None = None,
    publish: Publish | None = None,
) -> Launch:
    """Run a command to its end, observed, with this process's standard streams.

    Args:
        command: Program and arguments.
        out_dir: The run directory to write; it must not hold a run yet.
        show_status: Show the progress of the training in the terminal's title.
        output: File for the command's output, without standard input; if None, the command gets the
            streams of this process.
        proxy: Set if this process acts as the command and does nothing else.
        variables: Environment variables that only the command gets.
        publish: Publishes metrics of the run while the command runs.

    Returns:
        How it ended and where the run directory is.

    Raises:
        CaptureError: The directory cannot be written or the command cannot be started; nothing has
            run then. With a proxy, a directory that cannot be written is no error: the command
            replaces this process, unobserved. If it holds a run already, `out_dir-2` is used.
    """
    if not command:
        raise CaptureError("there is no command to run", "Pass a script, or -- and a command")
    run, env = _open_run(command, out_dir, proxy)
    signals = proxy.signals if proxy else signals_of_program()
    waiting = _Waiting(signals)
    with contextlib.nullcontext() if proxy else signals, _streams(output) as streams:
        child = _start(command, run, proxy, streams, {**env, **(variables or {})})
        signals.started(child.pid)
        if proxy:
            proxy.close_inherited_files()
        failures, observers = _observe(
            run, command, child.pid, show_status=show_status, publish=publish
        )
        code = waiting.wait_for(child)
        failures += _close(observers)
    messages = (*_end(run, shell_code(code)), *failures)
    return Launch(shell_code(code), run.path, messages, code, waiting.asked_to_end_s)


def _open_run(
    command: Sequence[str], out_dir: Path, proxy: CommandProxy | None
) -> tuple[Run, dict[str, str]]:
    """Make the run directory; with a proxy, run the command even if that fails.

    Returns:
        The directory, and the environment in which the command is observed.
    """
    if proxy is None:
        run = Run(out_dir, command)
        return run, environment(run.path, os.getpid())
    try:
        run = Run(out_dir, command, beside=True)
        env = environment(run.path, os.getpid())
    except CaptureError as error:
        proxy.print_error(f"stepwhy: {_UNOBSERVED.format(error.what)}. {error.todo} next time")
    except Exception as error:  # the training starts whatever fails
        reason = f"{type(error).__name__}: {error}"
        proxy.print_error(f"stepwhy: {_UNOBSERVED.format(reason)}")
    else:
        if run.path.name != out_dir.name:
            proxy.print_error(
                f"stepwhy: {out_dir} already holds a run, so this one goes to {run.path}"
            )
        return run, env
    try:
        proxy.replace_with(command)
    except (OSError, ValueError) as error:
        raise _cannot_start(command, error) from error


@contextlib.contextmanager
def _streams(output: Path | None) -> Iterator[dict[str, Any]]:
    """Standard streams of the command, as arguments of `Popen`."""
    if output is None:
        yield {}
        return
    with create(output) as file:
        yield {"stdin": subprocess.DEVNULL, "stdout": file, "stderr": subprocess.STDOUT}


def _start(
    command: Sequence[str],
    run: Run,
    proxy: CommandProxy | None,
    streams: dict[str, Any],
    env: dict[str, str],
) -> Child:
    """Start the command with the inherited files and signal mask, in an environment."""
    restore = proxy.restore_in_child if proxy else None
    try:
        process = subprocess.Popen(  # noqa: S603 - the user's command
            list(command),
            env=env,
            close_fds=False,
            preexec_fn=restore,  # noqa: PLW1509 - a proxy has one thread
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
    run: Run, command: Sequence[str], pid: int, *, show_status: bool, publish: Publish | None
) -> tuple[list[str], contextlib.ExitStack]:
    """Sample the command's processes from outside; a failure does not affect the command.

    Returns:
        Messages about failures, and what ends the observation.
    """
    observers, failures = contextlib.ExitStack(), list[str]()
    try:
        # First, so that it ends last, with all that was sampled.
        if publish is not None:
            observers.enter_context(publish(run.path, failures.append))
    except Exception as error:
        failures.append(_failure("no metrics were published", error))
    try:
        # Loaded while the command starts, so that it need not wait for them.
        from stepwhy.record.launcher.status import Status
        from stepwhy.record.sampling.sampler import Sampler
        from stepwhy.record.sampling.stacks import StackSamplers

        if show_status:
            observers.enter_context(Status(run.path))
        observers.enter_context(Sampler(run.path, pid, stacks=StackSamplers(run.path, command)))
    except Exception as error:
        failures.append(_failure("nothing was sampled from outside", error))
    return failures, observers


def _close(observers: contextlib.ExitStack) -> list[str]:
    """End the sampling; return messages about failures."""
    try:
        observers.close()
    except Exception as error:
        return [_failure("the last samples are missing", error)]
    return []


class _Waiting:
    """Waits for the command, and records when a program asked it to end."""

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
    """Close the run directory; return messages for the user."""
    texts: list[str] = []
    try:
        texts += _messages(run, exit_code)
    except Exception as error:
        texts.append(_failure("the messages of the observers could not be read", error))
    try:
        texts += run.end(exit_code)
    except Exception as error:
        texts.append(_failure("the end of the run could not be recorded", error))
    return texts


def _failure(what: str, error: Exception) -> str:
    return f"{what}: {type(error).__name__}: {error}"


def _messages(run: Run, exit_code: int) -> Iterator[str]:
    """Messages for the user: why nothing was observed, or those of the observers, once each."""
    if not run.path.is_dir():
        yield _VANISHED
        return
    left = survivors(run.path)
    texts = messages_of(run.path)
    if left:
        yield _LEFT_BEHIND.format(pids=", ".join(map(str, left)))
    elif not any(log.stat().st_size for log in run.path.glob("process-*/steps*.jsonl")):
        stopped = [text for text in texts if text.startswith(STOPPED)]
        if exit_code or stopped or not texts:
            yield run.why_no_step(exit_code)
        # That a log could not be written has been reported already.
        texts = [text for text in texts if text not in stopped]
    yield from texts


def survivors(run_dir: Path, proc: Path = _PROC, grace_s: float = _GRACE_S) -> list[int]:
    """The processes of a run that outlive its command, such as servers and daemons.

    They have inherited the variable with the run directory, even if they have changed their
    parents. Source: proc(5), ``/proc/<pid>/environ``; that of another user cannot be read.

    Args:
        run_dir: The run directory, absolute.
        proc: Folder of the proc file system.
        grace_s: How long they may take to end, s; without any, there is no wait.
    """
    variable = os.fsencode(f"{RUN_DIR_VARIABLE}={run_dir}")
    left = [pid for pid in _ids(proc) if _survives(proc, pid, variable)]
    deadline = time.monotonic() + grace_s
    while left and time.monotonic() < deadline:
        time.sleep(_POLL_S)
        left = [pid for pid in left if _survives(proc, pid, variable)]
    return sorted(left)


def _survives(proc: Path, pid: int, variable: bytes) -> bool:
    """Whether a process has this variable in its environment, and is no helper of Python."""
    if variable not in _words(proc / str(pid) / "environ"):
        return False
    return not any(word.startswith(_TRACKER) for word in _words(proc / str(pid) / "cmdline"))


def _ids(proc: Path) -> Iterator[int]:
    """All processes but this one."""
    try:
        names = os.listdir(proc)  # noqa: PTH208 - names, of which few are variable
    except OSError:
        return
    for name in names:
        if name.isdecimal() and int(name) != os.getpid():
            yield int(name)


def _words(path: Path) -> list[bytes]:
    """The entries of a file in /proc; [] if the process is gone or another user's."""
    try:
        return path.read_bytes().split(b"\0")
    except OSError:
        return []
