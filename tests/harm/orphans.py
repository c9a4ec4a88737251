"""Show that spawned workers of PyTorch's loader outlive a parent that is killed, without stepwhy.

    python -m tests.harm.orphans

A worker ends when its parent's process id is no longer what it was when the worker's loop began
(`ManagerWatchdog` in `torch/utils/data/_utils/worker.py`). A parent that ends before that is never
missed. Here each worker kills its parent while it unpickles the data set, which comes before the
loop. Prints how many processes are still there 30 seconds later: the workers, and
multiprocessing's resource tracker, which ends with the last of them.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.harm.execution import CONDITIONS, execute

_LEAVE_S = 30
_WORKERS = 2


class Data:
    """A data set whose copy in a worker kills the parent."""

    def __init__(self) -> None:
        self.values = list(range(512))
        self.parent = os.getpid()

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: int) -> int:
        return self.values[index]

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if os.getppid() == self.parent:
            os.kill(self.parent, signal.SIGUSR1)
        while os.getppid() == self.parent:
            time.sleep(0.01)


def load() -> None:
    """Read from the data set with spawned workers."""
    from torch.utils.data import DataLoader

    for _ in DataLoader(Data(), num_workers=_WORKERS, multiprocessing_context="spawn"):
        pass


def main() -> None:
    """Run `load` in a process of its own, and count what stays."""
    root = Path(__file__).resolve().parents[2]
    words = [sys.executable, "-m", "tests.harm.orphans", "load"]
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder) / "here"
        path = {"PYTHONPATH": str(root)}
        ended = execute(words, here, CONDITIONS[0], path, leave_s=_LEAVE_S)
    sys.stdout.write(f"Exit code {ended.code}; {ended.left} processes stay.\n")


if __name__ == "__main__":
    load() if sys.argv[1:] else main()
