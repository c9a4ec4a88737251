"""Signals to `stepwhy run` reach the training exactly once."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.record.launcher.test_crashes import observed, until

from stepwhy.record.launcher.signals import CaughtSignals, NoSignals

if TYPE_CHECKING:
    from collections.abc import Iterator

_TIMEOUT_S = 60

# Prints each signal that it receives, until the one that ends it.
LISTENER = """
import os, signal, sys
SKIPPED = {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGTSTP, signal.SIGTTIN,
           signal.SIGTTOU}
def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())
def got(number, frame):
    say("got", number)
    if number == signal.SIGTERM:
        sys.exit(3)
for number in signal.valid_signals() - SKIPPED:
    signal.signal(number, got)
say("pid", os.getpid())
while True:
    signal.pause()
"""
_TOLD = sorted(
    number
    for number in signal.valid_signals()
    - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGTERM}
    - {signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}
)


@dataclass
class Running:
    """A program under `stepwhy run`: the launcher, and the output of the program."""

    launcher: subprocess.Popen[str]
    program: int

    def line(self) -> str:
        assert self.launcher.stdout is not None
        return self.launcher.stdout.readline().rstrip("\n")

    def rest(self) -> list[str]:
        assert self.launcher.stdout is not None
        return self.launcher.stdout.read().splitlines()

    def code(self) -> int:
        return self.launcher.wait(_TIMEOUT_S)

    def kill(self) -> None:
        self.launcher.kill()
        if self.program:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.program, signal.SIGKILL)


@contextlib.contextmanager
def running(
    tmp_path: Path, program: str, before: tuple[str, ...] = (), **how: Any
) -> Iterator[Running]:
    """Start a program that first prints 'pid N'; no process of it outlives the block."""
    path = tmp_path / "program.py"
    path.write_text(program)
    how = {"process_group": 0, **how}
    words = [*before, *observed(path, tmp_path / "run")]
    launcher = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, **how)
    found = Running(launcher, 0)
    watchdog = threading.Timer(_TIMEOUT_S, found.kill)  # its output ends and the test fails
    watchdog.start()
    try:
        word, _, pid = found.line().partition(" ")
        assert word == "pid"
        found.program = int(pid)
        yield found
    finally:
        watchdog.cancel()
        found.kill()
        assert launcher.stdout is not None
        launcher.stdout.close()
        launcher.wait(120)


def state(pid: int) -> str:
    """State of a process according to the kernel, such as 'T' for stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.parametrize("to_group", [False, True], ids=["launcher", "group"])
def test_each_signal_reaches_the_program_once(tmp_path: Path, *, to_group: bool) -> None:
    with running(tmp_path, LISTENER) as run:
        send = os.killpg if to_group else os.kill
        for number in _TOLD:
            send(run.launcher.pid, number)
            assert run.line() == f"got {number}"
        os.kill(run.launcher.pid, signal.SIGTERM)
        assert run.rest() == [f"got {int(signal.SIGTERM)}"]
        assert run.code() == 3


def test_every_real_time_signal_of_a_queue_is_passed_on(tmp_path: Path) -> None:
    with running(tmp_path, LISTENER) as run:
        number = signal.SIGRTMIN + 3
        for _ in range(5):
            os.kill(run.launcher.pid, number)
        for _ in range(5):
            assert run.line() == f"got {number}"
        os.kill(run.launcher.pid, signal.SIGTERM)
        assert run.rest() == [f"got {int(signal.SIGTERM)}"]


@pytest.mark.parametrize("name", ["SIGUSR1", "SIGUSR2", "SIGALRM", "SIGTERM", "SIGINT", "SIGHUP"])
def test_a_program_without_handlers_ends_by_the_signal_and_is_not_orphaned(
    tmp_path: Path, name: str
) -> None:
    number = getattr(signal, name)
    code = "import os, signal; signal.signal(signal.SIGINT, signal.SIG_DFL)\n"
    code += "print('pid', os.getpid(), flush=True)\nsignal.pause()"
    with running(tmp_path, code) as run:
        os.kill(run.launcher.pid, number)
        assert run.rest() == []
        assert run.code() == -number  # what a parent sees without stepwhy
        assert not Path(f"/proc/{run.program}").exists()


@pytest.mark.parametrize("name", ["SIGINT", "SIGHUP", "SIGTERM"])
def test_an_ignored_signal_reaches_a_program_that_handles_it(tmp_path: Path, name: str) -> None:
    number = getattr(signal, name)

    def ignore() -> None:
        signal.signal(number, signal.SIG_IGN)

    with running(tmp_path, LISTENER, preexec_fn=ignore) as run:
        os.kill(run.launcher.pid, number)
        assert run.line() == f"got {int(number)}"


def test_an_ignored_signal_is_ignored_by_a_program_that_does_not_handle_it(tmp_path: Path) -> None:
    def ignore() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    code = """
import os, signal
signal.signal(signal.SIGUSR1, lambda *_: print("still here", flush=True))
print("pid", os.getpid(), flush=True)
signal.pause()
"""
    with running(tmp_path, code, preexec_fn=ignore) as run:
        os.kill(run.launcher.pid, signal.SIGHUP)
        os.kill(run.launcher.pid, signal.SIGUSR1)
        assert run.rest() == ["still here"]
        assert run.code() == 0


_SIGNALS_ITS_GROUP = """
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("pid", os.getpid(), flush=True)
os.killpg(os.getpgrp(), signal.SIGTERM)  # its workers, for example
signal.signal(signal.SIGTERM, lambda *_: print("came back", flush=True))
os.kill(os.getppid(), signal.SIGUSR1)  # without stepwhy, this is the shell
signal.signal(signal.SIGUSR2, lambda *_: print("end", flush=True))
signal.pause()
"""


def test_signals_to_group_and_parent_do_not_return(tmp_path: Path) -> None:
    with running(tmp_path, _SIGNALS_ITS_GROUP) as run:
        until(lambda: state(run.program) == "S")
        os.kill(run.launcher.pid, signal.SIGUSR2)
        assert run.rest() == ["end"]
        assert run.code() == 0


def test_stopped_program_stops_the_job_and_both_continue(tmp_path: Path) -> None:
    code = "import os, signal\nsignal.signal(signal.SIGUSR1, lambda *_: print('on', flush=True))\n"
    code += "print('pid', os.getpid(), flush=True)\nsignal.pause()"
    with running(tmp_path, code) as run:
        os.kill(run.launcher.pid, signal.SIGTSTP)
        _, status = os.waitpid(run.launcher.pid, os.WUNTRACED)  # as a shell waits
        assert os.WIFSTOPPED(status)
        assert os.WSTOPSIG(status) == signal.SIGTSTP
        assert state(run.program) == "T"
        os.kill(run.launcher.pid, signal.SIGCONT)
        os.kill(run.launcher.pid, signal.SIGUSR1)
        assert run.rest() == ["on"]
        assert run.code() == 0


def test_a_program_that_handles_the_stop_key_does_not_stop_the_job(tmp_path: Path) -> None:
    code = "import os, signal\nsignal.signal(signal.SIGTSTP, lambda *_: print('no', flush=True))\n"
    code += "print('pid', os.getpid(), flush=True)\nsignal.pause()"
    with running(tmp_path, code) as run:
        os.kill(run.launcher.pid, signal.SIGTSTP)
        assert run.rest() == ["no"]
        assert run.code() == 0


def test_program_that_is_stopped_and_continued_directly_is_waited_for(tmp_path: Path) -> None:
    with running(tmp_path, LISTENER) as run:
        os.kill(run.program, signal.SIGSTOP)
        until(lambda: state(run.program) == "T")
        os.kill(run.program, signal.SIGCONT)
        assert run.line() == f"got {int(signal.SIGCONT)}"
        os.kill(run.launcher.pid, signal.SIGTERM)
        assert run.rest() == [f"got {int(signal.SIGTERM)}"]
        assert run.code() == 3


def test_killing_the_launcher_leaves_the_training_running(tmp_path: Path) -> None:
    with running(tmp_path, LISTENER) as run:
        run.launcher.kill()
        assert run.code() == -signal.SIGKILL
        os.kill(run.program, signal.SIGTERM)
        assert run.rest() == [f"got {int(signal.SIGTERM)}"]


def test_timeout_ends_the_training_with_its_own_code(tmp_path: Path) -> None:
    """It signals its child, and then the whole group."""
    with running(tmp_path, LISTENER, ("timeout", "--preserve-status", "60")) as run:
        os.kill(run.launcher.pid, signal.SIGTERM)
        assert run.line() == f"got {int(signal.SIGTERM)}"
        assert run.code() == 3


def test_nohup_keeps_the_training_running(tmp_path: Path) -> None:
    code = "import os, signal\nsignal.signal(signal.SIGUSR1, lambda *_: print('on', flush=True))\n"
    code += "print('pid', os.getpid(), flush=True)\nsignal.pause()"
    with running(tmp_path, code, ("nohup",)) as run:
        os.kill(run.launcher.pid, signal.SIGHUP)
        os.kill(run.launcher.pid, signal.SIGUSR1)
        assert run.rest() == ["on"]
        assert run.code() == 0


@dataclass
class Terminal:
    """A terminal with a program under `stepwhy run` as the leader of its session."""

    launcher: subprocess.Popen[bytes]
    ours: int
    text: str = ""

    def until(self, text: str) -> None:
        while text not in self.text:
            assert select.select([self.ours], [], [], _TIMEOUT_S)[0], self.text
            self.text += os.read(self.ours, 4096).decode()


@contextlib.contextmanager
def in_terminal(command: list[str]) -> Iterator[Terminal]:
    ours, theirs = pty.openpty()

    def take_terminal() -> None:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    launcher = subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=take_terminal,  # noqa: PLW1509 - the tests start no threads
    )
    os.close(theirs)
    try:
        yield Terminal(launcher, ours)
    finally:
        with contextlib.suppress(OSError):
            os.close(ours)
        launcher.kill()
        launcher.wait(120)


def test_closing_terminal_signals_the_program(tmp_path: Path) -> None:
    """Only the leader of the session gets the signal, which is `stepwhy run`."""
    heard = tmp_path / "heard"
    (tmp_path / "program.py").write_text(
        "import os, signal, sys\n"
        f"signal.signal(signal.SIGHUP, lambda *_: (open({str(heard)!r}, 'a').write('x'), "
        "os._exit(5)))\n"
        "print('ready', flush=True)\nsignal.pause()"
    )
    with in_terminal(observed(tmp_path / "program.py", tmp_path / "run")) as terminal:
        # With the end of the line: a terminal that closes within it fails the program's output.
        terminal.until("ready\r\n")
        os.close(terminal.ours)
        assert terminal.launcher.wait(_TIMEOUT_S) == 5
    assert heard.read_text() == "x"


_SHELL = """
set -m
{command} &
fg %1 || true
echo stopped
fg %1
echo "code $?"
"""


def test_the_stop_key_stops_the_job_in_a_shell_and_fg_continues_it(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import os, signal\n"
        "signal.signal(signal.SIGCONT, lambda *_: os.write(1, b'continued\\n'))\n"
        "signal.signal(signal.SIGINT, lambda *_: os._exit(6))\n"
        "os.write(1, b'ready\\n')\n"
        "while True: signal.pause()"
    )
    words = " ".join(observed(tmp_path / "program.py", tmp_path / "run"))
    with in_terminal(["bash", "-c", _SHELL.format(command=words)]) as shell:
        shell.until("ready")
        os.write(shell.ours, b"\x1a")
        shell.until("continued")
        os.write(shell.ours, b"\x03")
        shell.until("code 6")
        assert shell.text.index("stopped") < shell.text.index("continued")
        assert shell.launcher.wait(_TIMEOUT_S) == 0


def test_signals_of_a_measuring_program_are_received_one_by_one() -> None:
    before = signal.getsignal(signal.SIGUSR1)
    with CaughtSignals() as signals:
        os.kill(os.getpid(), signal.SIGUSR1)
        received = signals.wait()
        assert received is not None
        assert (received.number, received.is_for_child) == (signal.SIGUSR1, True)
        assert signals.wait(0) is None
        child = subprocess.Popen([sys.executable, "-c", ""])
        assert signals.wait() is None  # it has ended
        child.wait(120)
    assert signal.getsignal(signal.SIGUSR1) is before


def test_a_thread_waits_for_its_child_alone() -> None:
    child = subprocess.Popen([sys.executable, "-c", "raise SystemExit(4)"])
    with NoSignals() as signals:
        signals.started(child.pid)
        assert signals.wait(0) is None
        signals.wait()
    assert child.poll() == 4
