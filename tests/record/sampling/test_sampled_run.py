"""A whole run with workers: samples from outside are in the result."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections import Counter

import pytest

from stepwhy.engine import explain
from stepwhy.record import launch
from stepwhy.record.sampling import ptrace
from stepwhy.record.sampling.stacks import find_py_spy

pytestmark = pytest.mark.framework

PROGRAM = """
    import time
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Images(Dataset):
        def __len__(self):
            return 100_000

        def __getitem__(self, index):
            return self.decode(index)

        def decode(self, index):
            end = time.perf_counter() + 0.01
            while time.perf_counter() < end:
                sum(range(100))
            return torch.zeros(8)

    def main():
        torch.set_num_threads(1)
        model = torch.nn.Linear(8, 8)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        end = time.perf_counter() + 5
        for batch in DataLoader(Images(), batch_size=2, num_workers=1):
            optimizer.zero_grad()
            model(batch).sum().backward()
            optimizer.step()
            if time.perf_counter() > end:
                break

    if __name__ == "__main__":
        main()
"""


def may_look():
    """Whether py-spy may read a process of this user that permits it."""
    if ptrace.scope() == ptrace.ANCESTORS_ONLY:
        return True
    code = "print(1, flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        child.stdout.readline()
        done = subprocess.run(
            [find_py_spy(), "dump", "--nonblocking", "--pid", str(child.pid)],
            capture_output=True,
            check=False,
            timeout=240,
        )
        child.communicate(b"\n")
    return done.returncode == 0


def test_hottest_line_of_the_workers_is_named(tmp_path):
    pytest.importorskip("torch")
    if not may_look():
        pytest.skip("the kernel does not let one process look at another here")
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(PROGRAM))
    ended = launch([sys.executable, str(script)], tmp_path / "run")
    assert (ended.exit_code, ended.messages) == (0, ())
    host = explain([str(ended.run_dir)]).host
    held = Counter()
    for line in host.lines:
        held[line.role, line.line.split(": ")[-1]] += line.share
    assert held["worker", "Images.decode"] > 0.5
    assert ("driver", "main") in held  # it waits for the loader
    assert not any("decode" in name for role, name in held if role == "driver")
    assert host.peak_resident_bytes > 0
