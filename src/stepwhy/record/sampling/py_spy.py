"""Run py-spy on a process, with its output in memory."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from stepwhy.base import children
from stepwhy.record.core.clock import now_ns

if TYPE_CHECKING:
    from typing import BinaryIO


# `stepwhy run` blocks signals, and a program that it starts would never see one.
_UNBLOCK = """
import os, signal, sys
signal.pthread_sigmask(signal.SIG_SETMASK, ())
os.execv(sys.argv[1], sys.argv[1:])
"""


@dataclass(slots=True)
class Recording:
    """A running py-spy.

    Args:
        sampler: Its process.
        raw: What it writes in the end: the stacks.
        errors: Its standard error.
        about: `start_ns` and `interval_ns` of its samples.
    """

    sampler: subprocess.Popen[bytes]
    raw: BinaryIO
    errors: BinaryIO
    about: dict[str, int]


def find_py_spy() -> Path | None:
    """The py-spy that was installed with stepwhy, or the one on the path."""
    beside = Path(sys.executable).with_name("py-spy")
    if beside.is_file():
        return beside
    found = children.find_program("py-spy")
    return Path(found) if found else None


def record(
    program: Path,
    pid: int,
    rate_hz: int,
    duration_s: int,
    *options: str,
    form: Literal["raw", "chrometrace"] = "raw",
    heeds_signals: bool = False,
) -> Recording:
    """Start to sample a process.

    Args:
        program: py-spy.
        pid: The process.
        rate_hz: Samples per second.
        duration_s: How long, unless the process ends or py-spy gets SIGINT before.
        options: Further options.
        form: 'raw' counts each stack (`stack_lines`), 'chrometrace' says when each frame began and
            ended (`driver_path`).
        heeds_signals: Whether it surely gets signals. Without, a short record just goes on; a
            program before it, which unblocks them, takes 10 ms of CPU time.

    Raises:
        OSError: It cannot be started.
    """
    raw, errors = _memory_file(), _memory_file()
    about = {"start_ns": now_ns(), "interval_ns": round(1e9 / rate_hz)}
    how = ["--format", form, "--idle", "--nonblocking", "--threads", "--full-filenames"]
    amount = ["--duration", str(duration_s), "--rate", str(rate_hz)]
    output = ["--pid", str(pid), "--output", f"/proc/self/fd/{raw.fileno()}"]
    arguments = [*how, *options, *amount, *output]
    unblock = (sys.executable, "-I", "-S", "-c", _UNBLOCK)
    sampler = children.start(
        [*(unblock if heeds_signals else ()), str(program), "record", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=errors,
        pass_fds=[raw.fileno()],
    )
    return Recording(sampler, raw, errors, about)


def _memory_file() -> BinaryIO:
    """A file without a name, which no other program can open.

    Source: memfd_create(2); py-spy runs only where that is.
    """
    return os.fdopen(os.memfd_create("stepwhy-stacks"), "rb+")


def content(file: BinaryIO) -> bytes:
    """Everything that py-spy wrote into a file."""
    file.seek(0)
    return file.read()
