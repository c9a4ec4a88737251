"""Act as the command: the parent of `stepwhy run` sees what it would see without stepwhy.

The shell, the scheduler or the launcher of ranks has given this process standard streams, other
open files, a signal mask and signal dispositions. All of them are meant for the command, which
inherits them unchanged. This process keeps none that it does not need, and ends as the command has
ended.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
from typing import TYPE_CHECKING, Self

from stepwhy.base import output
from stepwhy.record.launcher.child import shell_code
from stepwhy.record.launcher.run_directory import plain_environment
from stepwhy.record.launcher.signals import signals_of_proxy

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

_STREAMS = (0, 1, 2)
_STDERR = 2
# Python ignores these, and does not know whether they were ignored before.
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
_PR_SET_PDEATHSIG, _PR_GET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 2, 4


class CommandProxy:
    """This process as the proxy of a command; it must have one thread and do nothing else.

    Attributes:
        signals: Source of signals for the command, from `__enter__` on.
        has_stderr: Whether this process was started with a standard error.
    """

    def __init__(self) -> None:
        self._inherited = list(_inherited_files())
        self.has_stderr = _STDERR not in _reserve_streams()
        self._parent_signal = _signal_at_parents_end()
        self.signals = signals_of_proxy()

    def __enter__(self) -> Self:
        self.signals.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.signals.__exit__()

    def restore_in_child(self) -> None:
        """In a forked process: restore the state in which this process was started."""
        with contextlib.suppress(Exception):
            if self._parent_signal:
                _prctl(_PR_SET_PDEATHSIG, self._parent_signal)
        self.signals.restore_in_child()

    def close_inherited_files(self) -> None:
        """Close the files that the command has inherited, so that its pipes end with it.

        Standard error stays open for the report.
        """
        with contextlib.suppress(OSError):
            null = os.open(os.devnull, os.O_RDWR)
            for stream in _STREAMS[:_STDERR]:
                os.dup2(null, stream, inheritable=False)
            os.close(null)
        for file in self._inherited:
            with contextlib.suppress(OSError):
                os.close(file)

    def replace_with(self, command: Sequence[str]) -> NoReturn:
        """Replace this process by the command, which then runs without stepwhy.

        Raises:
            OSError: It cannot be started.
            ValueError: An argument contains a null byte.
        """
        self.restore_in_child()
        for number in _IGNORED_BY_PYTHON:
            signal.signal(number, signal.SIG_DFL)
        os.execvpe(command[0], list(command), plain_environment())  # noqa: S606 - the user's command

    def print_error(self, text: str) -> None:
        """Print a line on standard error, unless that is closed, broken or full."""
        if self.has_stderr:
            output.line_without_waiting(text)

    def exit_like(self, code: int) -> NoReturn:
        """End as the command has ended, by the same signal if one ended it.

        Args:
            code: Its exit code, -n for signal n.
        """
        if code < 0:
            _die_by(-code)
        os._exit(shell_code(code))


def _die_by(number: int) -> None:
    """End this process by a signal, without a second core file.

    Process 1 of a container does not end: the kernel ignores the signal there.
    """
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    with contextlib.suppress(Exception):
        _prctl(_PR_SET_DUMPABLE, 0)
    with contextlib.suppress(OSError, ValueError):
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})


def _inherited_files() -> list[int]:
    """The open files, except standard streams, that this process has inherited."""
    try:
        files = [int(name) for name in os.listdir("/dev/fd")]  # noqa: PTH208 - numbers
    except OSError:
        return []
    return [file for file in files if file > _STDERR and _is_inheritable(file)]


def _is_inheritable(file: int) -> bool:
    try:
        return os.get_inheritable(file)
    except OSError:  # the descriptor of the listing itself
        return False


def _reserve_streams() -> set[int]:
    """Open the null device in place of closed standard streams; returns the closed ones.

    Otherwise the next opened file, such as a log of the run, would become a standard stream. The
    command does not inherit the null device, so the stream is closed for it.
    """
    closed = set()
    for stream in _STREAMS:
        try:
            os.fstat(stream)
        except OSError:
            closed.add(stream)
            with contextlib.suppress(OSError):
                os.open(os.devnull, os.O_RDWR)  # it gets the lowest number that is free
    return closed


def _signal_at_parents_end() -> int:
    """The signal that this process receives when its parent ends; 0 for none."""
    try:
        import ctypes

        number = ctypes.c_int(0)
        _prctl(_PR_GET_PDEATHSIG, ctypes.addressof(number))
    except Exception:
        return 0
    return number.value


def _prctl(option: int, argument: int) -> None:
    """Call prctl(2)."""
    import ctypes

    ctypes.CDLL(None).prctl(option, ctypes.c_ulong(argument), 0, 0, 0)
