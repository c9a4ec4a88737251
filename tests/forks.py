"""Runs scripts in forks of one process that has imported their framework.

Importing TensorFlow takes longer than most programs of tests train. A script finds everything as if
Python had started it (arguments, folder, environment, `__main__`), and ends as it would there. If
it is observed or changed by a trial, this begins when the framework is imported already, as with
`stepwhy.watch`, and not while it is imported.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from stepwhy.record.launcher import launch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import IO

    from stepwhy.record import Launch

_STREAMS = ("stdout", "stderr")
_LIMIT_S = 120
_SERVER = Path(__file__).with_name("fork_server.py")
# What the scripts of a framework find imported. JAX is imported fast, and must not be forked.
IMPORTED = {
    "keras": ["tensorflow", "keras"],
    "tensorflow": ["tensorflow"],
    "torch": ["torch", "torch._dynamo"],
}


class Fork:
    """A script that runs, with what `launch` uses of a `Popen`."""

    def __init__(self, pid: int, answers: IO[str]) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._answers = answers

    def wait(self) -> int:
        """Wait until it has ended, and return its exit code, -n for signal n."""
        if self.returncode is None:
            self.returncode = int(self._answers.readline())
        return self.returncode


class Forks:
    """A process that has imported a framework, and runs scripts in forks of itself, one by one."""

    def __init__(self, framework: str) -> None:
        self._requests, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, str(_SERVER), *IMPORTED[framework]],
                env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
                stdin=theirs,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )

    def start(
        self,
        words: Sequence[str | Path],
        streams: Sequence[int],
        folder: Path | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> Fork:
        """Start a script; the one before it must have ended.

        Args:
            words: The path of the script, or -m and a module, and its arguments. `-Wignore` or
                `-Werror` may stand before it.
            streams: Descriptors of its standard input, output and error.
            folder: The current folder of the script; None is that of the tests.
            environment: The environment of the script.
        """
        about = {"folder": str(folder or Path.cwd()), "environment": dict(environment)}
        request = json.dumps({"words": [str(word) for word in words], **about}) + "\n"
        sent = socket.send_fds(self._requests, [request.encode()], list(streams))
        self._requests.sendall(request.encode()[sent:])
        return Fork(int(self._process.stdout.readline()), self._process.stdout)

    def run(
        self,
        words: Sequence[str | Path],
        scratch: Path,
        folder: Path | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> subprocess.CompletedProcess[str]:
        """Run a script with its arguments, and return its exit code and what it printed.

        Args:
            words: The path of the script, and its arguments.
            scratch: An existing folder for the output.
            folder: The current folder of the script; None is that of the tests.
            environment: The environment of the script.
        """
        with streams_to(scratch) as streams:
            code = self.start(words, streams, folder, environment).wait()
        return subprocess.CompletedProcess(words, code, *printed(scratch))

    def check_output(self, code: str, folder: Path, *arguments: str) -> str:
        """Run some code, whose warnings are ignored and which must succeed.

        Args:
            code: The code; it is written to the folder, as is what it prints.
            folder: The current folder of the code.
            arguments: What it finds in `sys.argv`.

        Returns:
            What it printed.
        """
        script = folder / "program.py"
        script.write_text(code)
        ended = self.run(["-Wignore", script, *arguments], folder, folder)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def launch(
        self,
        words: Sequence[str | Path],
        run_dir: Path,
        streams: Sequence[int] = (0, 1, 2),
        folder: Path | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> Launch:
        """`launch` a script with its arguments.

        Args:
            words: As for `start`.
            run_dir: The run directory to write.
            streams: Descriptors of its standard streams; those of this process, unless given.
            folder: The current folder of the script; None is that of the tests.
            variables: Environment variables that only the script gets.
        """

        def start(command: list[str], *, env: dict[str, str], **_: object) -> Fork:
            return self.start(command[1:], streams, folder, env)

        with pytest.MonkeyPatch.context() as patch:
            starting = SimpleNamespace(**{**vars(subprocess), "Popen": start})
            patch.setattr(launch, "subprocess", starting)
            command = [sys.executable, *map(str, words)]
            return launch.launch(command, run_dir, variables=variables)

    def close(self) -> None:
        self._requests.close()
        self._process.communicate()  # it ends when nothing more is asked of it


def fork(*work: Callable[[], object]) -> int:
    """Do some work in a fork of this process, which a signal kills if it does not end.

    Garbage is collected first, and not in the child: a session or a process group of another test
    would wait there, when it is collected, for threads that only the parent has.

    Args:
        work: What the child does, one after the other; an error ends it quietly.

    Returns:
        The process id of the child.
    """
    gc.collect()
    gc.freeze()  # what is left need not be looked through again before the next fork
    child = os.fork()
    if not child:
        try:
            gc.disable()
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(_LIMIT_S)
            for each in work:
                each()
        finally:
            os._exit(0)
    return child


@contextmanager
def streams_to(scratch: Path) -> Iterator[list[int]]:
    """Descriptors of standard streams: no input, and files of a folder for output and errors."""
    with ExitStack() as stack:
        opened = [stack.enter_context(Path(os.devnull).open())]
        opened += [stack.enter_context((scratch / name).open("w")) for name in _STREAMS]
        yield [file.fileno() for file in opened]


def printed(scratch: Path) -> list[str]:
    """Output and errors of a script with these streams."""
    return [(scratch / name).read_text() for name in _STREAMS]
