"""What a command takes, and what it may take.

The peak of memory is that of the program's own address space (`VmHWM` in proc_pid_status(5) of the
Linux manual pages). `ru_maxrss` would not do: a process starts with the peak of whoever forked it,
here a test process that holds several frameworks.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from dataclasses import dataclass

MOST_CPU_S, MOST_MB = 20, 1000
"""What a file of less than 10 MB may take."""
_STOPPED_S = MOST_CPU_S + 10
_EXPECTED = (0, 3)  # a result, an input error
_PROGRAM = """
import atexit, os, runpy, sys
log = int(sys.argv.pop(1))

@atexit.register
def note_peak():
    with open("/proc/self/status") as status:
        peak = next(line for line in status if line.startswith("VmHWM:"))
    os.write(log, peak.split()[1].encode())

runpy.run_module("stepwhy", run_name="__main__", alter_sys=True)
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a command took.

    Args:
        cpu_s: Time of the processor, seconds; it is stopped where it takes far too much.
        peak_mb: Peak memory, MB; NaN where it was killed.
        exit_code: How it ended.
        error: The last line that it wrote to standard error, '' where it did not fail.
    """

    cpu_s: float
    peak_mb: float
    exit_code: int
    error: str

    @property
    def is_allowed(self) -> bool:
        """Whether that is no more than any small file may take."""
        is_cheap = self.cpu_s <= MOST_CPU_S and self.peak_mb <= MOST_MB
        return is_cheap and self.exit_code in _EXPECTED


def cost_of(arguments: list[str], folder: str) -> Cost:
    """Run stepwhy in a folder, without its output."""
    limit = (_STOPPED_S, _STOPPED_S)
    with tempfile.TemporaryFile() as log, tempfile.TemporaryFile() as peak:
        process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-c", _PROGRAM, str(peak.fileno()), *arguments],
            stdout=subprocess.DEVNULL,
            stderr=log,
            cwd=folder,
            pass_fds=[peak.fileno()],
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, limit),  # noqa: PLW1509
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = code = os.waitstatus_to_exitcode(status)
        log.seek(0)
        peak.seek(0)
        error = log.read().decode(errors="replace").strip().rpartition("\n")[2]
        peak_mb = float(peak.read() or "nan") / 1024
    return Cost(usage.ru_utime + usage.ru_stime, peak_mb, code, error if code else "")
