"""The helper that samples a watched program from outside: started by it, and ended with it.

Nothing that samples runs inside the program. The helper lives as long as the block; where the
program dies first, killed or not, the helper ends within a second: it reads end of file from
the program, and its parent is another one.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from stepwhy import children
from stepwhy.capture.sampling import ptrace

if TYPE_CHECKING:
    from collections.abc import Sequence

# The stack samples that are being taken when the block ends are worth so much.
_PATIENCE_S = 3.0
_TICK_S = 0.5
_NOT_STARTED = "CPU, memory and stacks were not sampled: the helper process could not be started"


class Outside:
    """The helper of one block, as the program sees it.

    Args:
        run_dir: The run directory, absolute.
        command: What this process was started as.
    """

    def __init__(self, run_dir: Path, command: Sequence[str]) -> None:
        self._helper: subprocess.Popen[bytes] | None = None
        self._scope = ptrace.scope()
        try:
            self._helper = _start(run_dir, command)
        except (OSError, ValueError):
            return
        if self._scope == ptrace.ANCESTORS_ONLY:
            ptrace.let_look(self._helper.pid)

    @property
    def helper_id(self) -> int:
        """Id of the helper process; 0 where it could not be started."""
        return self._helper.pid if self._helper is not None else 0

    def end(self) -> list[str]:
        """End it, and wait a moment for what it still writes; never raises.

        Returns:
            What could not be sampled.
        """
        helper = self._helper
        if helper is None:
            return [_NOT_STARTED]
        try:
            helper.communicate(b"end", timeout=_PATIENCE_S)
        except Exception:
            helper.kill()
            helper.wait()
        if self._scope == ptrace.ANCESTORS_ONLY:
            ptrace.let_look(0)
        return []


def _start(run_dir: Path, command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start the helper: in a session of its own, out of reach of the terminal's keys."""
    return children.start(
        children.module_command(__name__, str(os.getpid()), str(run_dir), *command),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def main(arguments: Sequence[str]) -> None:
    """The helper: sample until the program says that the block has ended, or is gone.

    Args:
        arguments: Id of the program, run directory, and what the program was started as.
    """
    from stepwhy.capture.sampling.sampler import Sampler
    from stepwhy.capture.sampling.stacks import StackSamplers

    pid, run_dir, *command = arguments
    folder = Path(run_dir)
    with Sampler(folder, int(pid), stacks=StackSamplers(folder, command)):
        # Forks of the program hold the other end of the pipe open, so its end alone does not do.
        while os.getppid() == int(pid) and not select.select([sys.stdin], [], [], _TICK_S)[0]:
            pass


if __name__ == "__main__":
    main(sys.argv[1:])
