"""A child process: its signals, its stops and its end."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import TYPE_CHECKING

from stepwhy.record.launcher.signals import STOPPING

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from typing import Any

    from stepwhy.record.launcher.signals import Received, Signals

_RETRY_S = 0.1
_SIGNAL_BASE = 128  # a shell's exit code for signal n is 128 + n


class Child:
    """A child process that only this module waits for.

    Args:
        process: The process.
    """

    def __init__(self, process: subprocess.Popen[Any]) -> None:
        self._process = process
        self._stopped_by = 0
        self._asked_to_stop = False
        self.pid = process.pid

    def poll(self) -> int | None:
        """Its exit code, -n for signal n; None while it runs.

        If it has stopped after this process was asked to stop (Ctrl-Z), this process stops too, and
        continues when the shell continues it.
        """
        while self._process.returncode is None:
            pid, status = self._state()
            if not pid:
                break
            if os.WIFSTOPPED(status):
                self._stopped_by = os.WSTOPSIG(status)
            elif os.WIFCONTINUED(status):
                self._stopped_by = 0
            else:
                self._process.returncode = os.waitstatus_to_exitcode(status)
        if self._process.returncode is None and self._stopped_by and self._asked_to_stop:
            self._asked_to_stop = False
            stop(self._stopped_by)
        return self._process.returncode

    def _state(self) -> tuple[int, int]:
        """The latest change of its state; (0, 0) if there is none."""
        try:
            return os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
        except ChildProcessError:  # another part of the program has reaped it
            self._process.wait()
            return 0, 0

    def send(self, number: int) -> None:
        """Send it a signal, if it still runs and belongs to this user."""
        if self._process.returncode is None:
            with contextlib.suppress(OSError):
                os.kill(self.pid, number)

    def receive(self, received: Received) -> None:
        """Forward a signal to the child, unless it has received it already."""
        if received.number in STOPPING:
            self._asked_to_stop = True
        elif received.number == signal.SIGCONT:
            self._asked_to_stop = False
        if received.is_for_child:
            self.send(received.number)


def wait_for(
    child: Child,
    signals: Signals,
    receive: Callable[[Received], None] | None = None,
    deadline_s: float | None = None,
) -> int | None:
    """Wait until a child has ended, whatever fails meanwhile.

    Args:
        child: The child.
        signals: Source of signals.
        receive: Handles each signal; if None, signals are forwarded.
        deadline_s: When to stop waiting, on the monotonic clock, s; None for never.

    Returns:
        Its exit code, -n for signal n; None if the deadline passed first.
    """
    while True:
        try:
            code = child.poll()
            if code is not None:
                return code
            left_s = None if deadline_s is None else deadline_s - time.monotonic()
            if left_s is not None and left_s <= 0:
                return None
            received = signals.wait(left_s)
            if received is not None:
                (receive or child.receive)(received)
        except Exception:  # out of memory, for example: the child must still be waited for
            time.sleep(_RETRY_S)


def stop(number: int) -> None:
    """Stop this process by a signal of job control, until it is continued.

    Args:
        number: SIGSTOP, or another one that is handled by default.
    """
    os.kill(os.getpid(), number)
    if number in STOPPING and hasattr(signal, "pthread_sigmask"):
        before = signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def shell_code(code: int) -> int:
    """The exit code that a shell shows for an ended process.

    Args:
        code: Its exit code, -n for signal n.
    """
    return _SIGNAL_BASE - code if code < 0 else code
