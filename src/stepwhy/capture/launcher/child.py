"""A process that was started: its signals, its stops and its end."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import TYPE_CHECKING

from stepwhy.capture.launcher.signals import STOPPING

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from typing import Any

    from stepwhy.capture.launcher.signals import Received, Signals

_RETRY_S = 0.1
_SIGNAL_BASE = 128  # a shell's exit code for signal n is 128 + n


class Child:
    """A child process, waited for by its parent alone.

    Args:
        process: The process.
    """

    def __init__(self, process: subprocess.Popen[Any]) -> None:
        self._process = process
        self._stopped_by = 0
        self._asked_to_stop = False
        self.pid = process.pid

    def poll(self) -> int | None:
        """How it ended: its exit code, -n for signal n; None while it has not.

        If it was stopped as this process was asked to be (Ctrl-Z), this process stops, too, and
        goes on when the shell continues it.
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
        """The newest change of its state; (0, 0) without one."""
        try:
            return os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
        except ChildProcessError:  # another part of the program has waited for it
            self._process.wait()
            return 0, 0

    def send(self, number: int) -> None:
        """Send it a signal; it may have ended, or have become another user's."""
        if self._process.returncode is None:
            with contextlib.suppress(OSError):
                os.kill(self.pid, number)

    def receive(self, received: Received) -> None:
        """Pass on a signal of this process, unless the child has it already."""
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
    """Wait until a child has ended, whatever happens meanwhile.

    Args:
        child: The child.
        signals: Where signals arrive.
        receive: What is done with each; they are passed on where this is None.
        deadline_s: When to stop waiting, on the monotonic clock, s; None for never.

    Returns:
        Its exit code, -n for signal n; None when the deadline passed first.
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
        except Exception:  # no memory, say: the child still has to be waited for
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
    """The exit code that a shell shows for a process that ended.

    Args:
        code: Its exit code, -n for signal n.
    """
    return _SIGNAL_BASE - code if code < 0 else code
