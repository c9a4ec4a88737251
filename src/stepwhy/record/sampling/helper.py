"""The helper process that samples a watched program from outside.

No sampling runs inside the program. The program starts the helper for the length of a block. If the
program dies first, even by SIGKILL, the helper ends within a second: its standard input ends and it
gets another parent.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from stepwhy.base import children
from stepwhy.record.sampling import ptrace

if TYPE_CHECKING:
    from collections.abc import Sequence

# How long the end of the block waits for stack samples that are under way.
_PATIENCE_S = 3.0
_TICK_S = 0.5
_NOT_STARTED = "CPU, memory and stacks were not sampled: the helper process could not be started"


class SamplingHelper:
    """The helper process of one block.

    Args:
        run_dir: The run directory, absolute.
        command: The command line of this process.
    """

    def __init__(self, run_dir: Path, command: Sequence[str]) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._scope = ptrace.scope()
        try:
            self._process = _start(run_dir, command)
        except (OSError, ValueError):
            return
        if self._scope == ptrace.ANCESTORS_ONLY:
            ptrace.allow_reading(self._process.pid)

    @property
    def helper_id(self) -> int:
        """Id of the helper process; 0 if it could not be started."""
        return self._process.pid if self._process is not None else 0

    def end(self) -> list[str]:
        """End it, after a short wait for its last records; never raises.

        Returns:
            Messages about what could not be sampled.
        """
        helper = self._process
        if helper is None:
            return [_NOT_STARTED]
        try:
            helper.communicate(b"end", timeout=_PATIENCE_S)
        except Exception:
            helper.kill()
            helper.wait()
        if self._scope == ptrace.ANCESTORS_ONLY:
            ptrace.allow_reading(0)
        return []


def _start(run_dir: Path, command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start the helper in a session of its own, out of reach of the terminal's keys."""
    return children.start(
        children.module_command(__name__, str(os.getpid()), str(run_dir), *command),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def main(arguments: Sequence[str]) -> None:
    """Run the helper: sample until the block has ended or the program is gone.

    Args:
        arguments: Id of the program, run directory, and the program's command line.
    """
    from stepwhy.record.sampling.sampler import Sampler
    from stepwhy.record.sampling.stacks import StackSamplers

    pid, run_dir, *command = arguments
    folder = Path(run_dir)
    with Sampler(folder, int(pid), stacks=StackSamplers(folder, command)):
        # Forks of the program keep the pipe open, so end of file alone is not enough.
        while os.getppid() == int(pid) and not select.select([sys.stdin], [], [], _TICK_S)[0]:
            pass


if __name__ == "__main__":
    main(sys.argv[1:])
