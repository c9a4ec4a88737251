"""Receive the signals of a process that waits for a child, one at a time.

`stepwhy run` has the process id that the shell, the scheduler and the user know, so they send it
signals that are meant for the training. Each must reach the training exactly once: signals to the
whole process group, such as those of a terminal, have arrived there already.

`BlockedSignals` is for a process that does nothing else: signals stay blocked and are received by
`sigwaitinfo`. None is lost, ignored ones are received too, and the dispositions that the child
inherits never change. `CaughtSignals` is for a program that continues afterwards (`stepwhy bench`),
and for systems without `sigwaitinfo`; `NoSignals` is for threads, which cannot have handlers.

Source: signal(7), sigaction(2) (``si_code``), credentials(7), tty_ioctl(4).
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self

from stepwhy.record.launcher.group_signals import GroupSignals

if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

STOPPING = frozenset({signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU})
"""Signals of job control that stop a process which does not handle them."""

ENDING = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGXCPU})
"""Signals that ask a program to end."""

# A terminal sends these to the foreground group, and the kernel SIGHUP and SIGCONT to a stopped
# group without a shell.
_FROM_TERMINAL = STOPPING | {
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGHUP,
    signal.SIGWINCH,
    signal.SIGCONT,
}
_CAUGHT = (
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGHUP,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGALRM,
)
_FROM_KERNEL = 0x80  # SI_KERNEL
# After a signal to this process alone, its sender has sent all related signals by then.
_SETTLED_S = 1.0


@dataclass(frozen=True, slots=True)
class Received:
    """A signal that has arrived.

    Args:
        number: The signal.
        is_for_child: Whether it must be forwarded to the child.
        is_from_terminal: Whether it comes from a key, not from a program.
    """

    number: int
    is_for_child: bool
    is_from_terminal: bool


class Signals(Protocol):
    """A source of signals; between `__enter__` and `__exit__` they have no other effect."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def restore_in_child(self) -> None:
        """In a forked process: restore the original handling."""

    def started(self, pid: int) -> None:
        """The child has started with this id; signals that arrived earlier did not reach it."""

    def wait(self, timeout_s: float | None = None) -> Received | None:
        """Wait for the next signal, or until a child may have changed its state.

        Args:
            timeout_s: Longest wait, s.

        Returns:
            The signal; None for a change of a child, or after the timeout.
        """


class BlockedSignals:
    """Signals of a process that has one thread and acts as the proxy of its child."""

    def __init__(self) -> None:
        self._child = 0
        self._early: set[int] = set()
        self._unsettled_s: float | None = None
        self._group: GroupSignals | None = None

    def __enter__(self) -> Self:
        self._all = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._all)
        # If ignored, the kernel discards the exit status of children.
        self._child_ended = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        with contextlib.suppress(OSError):  # no more processes allowed
            self._group = GroupSignals()
        return self

    def __exit__(self, *_: object) -> None:
        if self._group is not None:
            self._group.close()
            self._group = None
        if self._child_ended is not None:
            signal.signal(signal.SIGCHLD, self._child_ended)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def restore_in_child(self) -> None:
        """In a forked process: restore the inherited signal mask and handling."""
        for number in self._all:
            if callable(signal.getsignal(number)):  # Python's own, for SIGINT
                signal.signal(number, signal.SIG_DFL)
        if self._child_ended is signal.SIG_IGN:
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def started(self, pid: int) -> None:
        """The child has this id; the signals that are pending here did not reach it."""
        self._child = pid
        self._early = {int(number) for number in signal.sigpending()}
        if self._group is not None:
            self._group.forget()

    def wait(self, timeout_s: float | None = None) -> Received | None:
        """Wait for the next signal, or a change of a child."""
        info = self._next(timeout_s)
        if info is None or info.si_signo == signal.SIGCHLD:
            return None
        is_from_terminal = info.si_code == _FROM_KERNEL and info.si_signo in _FROM_TERMINAL
        return Received(info.si_signo, not self._is_done(info), is_from_terminal)

    def _next(self, timeout_s: float | None) -> signal.struct_siginfo | None:
        """The next signal; late group signals are discarded once things have settled."""
        if self._unsettled_s is None:
            if timeout_s is None:
                return signal.sigwaitinfo(self._all)
            return signal.sigtimedwait(self._all, max(timeout_s, 0))
        wait_s = max(self._unsettled_s - time.monotonic(), 0)
        if timeout_s is not None and timeout_s < wait_s:
            return signal.sigtimedwait(self._all, max(timeout_s, 0))
        info = signal.sigtimedwait(self._all, wait_s)
        if info is None:
            self._unsettled_s = None
            if self._group is not None:
                self._group.forget()
        return info

    def _is_done(self, info: signal.struct_siginfo) -> bool:
        """Whether the child has the signal already, or must not get it."""
        number = info.si_signo
        if number in self._early:
            self._early.discard(number)
            return False
        if info.si_code == _FROM_KERNEL:
            return _came_from_kernel(number)
        # Writing into a broken pipe signals the writer; a child may signal its parent.
        if info.si_pid in (os.getpid(), self._child):
            return True
        if self._group is not None and self._group.include(number):
            return True
        self._unsettled_s = time.monotonic() + _SETTLED_S
        return False


def _came_from_kernel(number: int) -> bool:
    """Whether a signal from the kernel need not be forwarded to the child."""
    if number == signal.SIGXCPU:
        return True  # CPU time of this process; that of the child is counted separately
    if number == signal.SIGHUP and os.getsid(0) == os.getpid():
        return False  # a closing terminal signals only the leader of its session
    return number in _FROM_TERMINAL  # but not alarms that were set before this program began


class CaughtSignals:
    """Signals of a program, caught by handlers that are restored at the end."""

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}
        self._arrived = bytearray()

    def __enter__(self) -> Self:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self._wakeup = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for number in (*_CAUGHT, signal.SIGCHLD):
            # An ignored signal (nohup) stays ignored, here and in the child.
            ignored = signal.getsignal(number) is signal.SIG_IGN
            if not ignored or number == signal.SIGCHLD:
                self._before[number] = signal.signal(number, _note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup)
        os.close(self._reader)
        os.close(self._writer)

    def restore_in_child(self) -> None:
        """Nothing: handlers do not outlive the start of another program."""

    def started(self, _pid: int) -> None:
        """Nothing: signals that arrived earlier are still pending."""

    def wait(self, timeout_s: float | None = None) -> Received | None:
        """Wait for the next signal, or a change of a child."""
        if not self._arrived:
            import select

            if select.select([self._reader], [], [], timeout_s)[0]:
                self._arrived += os.read(self._reader, 64)
        if not self._arrived:
            return None
        number = self._arrived.pop(0)
        if number == signal.SIGCHLD:
            return None
        by_key = number in _FROM_TERMINAL and _in_foreground()
        return Received(number, not by_key, by_key)


def _note(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: the interpreter has written the number into the pipe."""


class NoSignals:
    """Waits for a child in a thread; signals go to the main thread."""

    def __init__(self) -> None:
        self._child = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def restore_in_child(self) -> None:
        """Nothing was changed."""

    def started(self, pid: int) -> None:
        """Wait for this child from here on."""
        self._child = pid

    def wait(self, timeout_s: float | None = None) -> None:
        """Wait until the child has ended, without reaping it."""
        if timeout_s is not None:
            time.sleep(max(timeout_s, 0))
        else:
            os.waitid(os.P_PID, self._child, os.WEXITED | os.WNOWAIT)


def signals_of_program() -> Signals:
    """The source of signals for a program that continues after its child has ended."""
    is_main = threading.current_thread() is threading.main_thread()
    return CaughtSignals() if is_main else NoSignals()


def signals_of_proxy() -> Signals:
    """The source of signals for a process that acts as its child and does nothing else."""
    try:
        alone = len(os.listdir("/proc/self/task")) == 1  # noqa: PTH208 - only counted
    except OSError:
        alone = False
    return BlockedSignals() if alone and hasattr(signal, "sigwaitinfo") else signals_of_program()


def _in_foreground() -> bool:
    """Whether keys of a terminal reach this process group, and so the child, directly."""
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
