"""`stepwhy top --watch` with the real framework: a rank becomes late in the middle of a job."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from stepwhy.engine.explain import explain

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.framework

# Rank 1 computes twice as long from step 150 on, and no rank opens a window by itself. The job ends
# some steps after both ranks have traced such steps.
PROGRAM = """
import json, os, sys, time
from pathlib import Path

LATE, MOST_STEPS = 150, 4000

def busy(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass

def have_traced(run):
    found = [json.loads(file.read_text()) for file in run.glob("process-*/windows/*/window.json")]
    return sum(about["first_step"] > LATE for about in found) == 2

def train(rank, store):
    os.environ.update(RANK=str(rank), WORLD_SIZE="2")
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    run = Path(os.environ["STEPWHY_RUN_DIR"])
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    last = MOST_STEPS
    for step in range(MOST_STEPS):
        busy(0.02 if step >= LATE and rank == 1 else 0.01)
        model(torch.ones(8, 4)).sum().backward()
        dist.all_reduce(model.weight.grad)
        is_done = torch.tensor(float(rank == 0 and step % 20 == 0 and have_traced(run)))
        dist.all_reduce(is_done)
        if is_done:
            last = min(last, step + 60)
        optimizer.step()
        optimizer.zero_grad()
        if step == LATE:
            sys.modules["stepwhy.record.windows.traced_window"].may_open = lambda step: False
        if step == last:
            break

if len(sys.argv) > 2:
    train(int(sys.argv[2]), sys.argv[1])
else:
    import subprocess
    ranks = [
        subprocess.Popen([sys.executable, __file__, sys.argv[1], str(rank)]) for rank in range(2)
    ]
    sys.exit(max(abs(rank.wait()) for rank in ranks))
"""


def test_a_rank_that_becomes_late_is_traced_with_one_that_waits(tmp_path: Path) -> None:
    script, out = tmp_path / "train.py", tmp_path / "run"
    script.write_text(PROGRAM)
    stepwhy = [sys.executable, "-m", "stepwhy"]
    command = [*stepwhy, "run", "--quiet", "--out", str(out), str(script), str(tmp_path / "store")]
    with subprocess.Popen(command) as job:
        while not out.is_dir():
            assert job.poll() is None
            time.sleep(0.05)
        watch = subprocess.run(
            [*stepwhy, "top", str(out), "--watch", "--interval", "0.3"],
            capture_output=True,
            text=True,
            check=True,
            timeout=240,
        )
    said = " ".join(watch.stdout.split())
    assert "Watching: no lasting change so far." in said
    assert re.search(r"rank 1 is late", said, re.IGNORECASE)
    assert re.search(r"Ranks 1 and 0 have traced steps \d+ to \d+\.", said)

    found = [json.loads(file.read_text()) for file in out.glob("process-*/windows/*/window.json")]
    firsts = sorted(about["first_step"] for about in found)
    # Each rank has the window of its warm loop, and the requested one, at the same steps.
    assert firsts[0] == firsts[1] < 150 < firsts[2] == firsts[3]
    answers = [json.loads(file.read_text()) for file in out.glob("process-*/answer.json")]
    assert [answer["accepted"] for answer in answers] == [True, True]

    # On a busy machine, there may be further changes between the two windows.
    first, *_, last = explain([str(out)]).steps.stretches
    assert (first.traced_steps, last.traced_steps) == (4, 4)
    assert last.first_step > 120
