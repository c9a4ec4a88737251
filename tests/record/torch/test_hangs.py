"""A rank that does not enter a collective, with the real framework."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from stepwhy.engine.explain import explain
from stepwhy.record.steps.stall_watch import STALL_VARIABLE

if TYPE_CHECKING:
    from pathlib import Path

    from stepwhy.result import Result

pytestmark = pytest.mark.framework

# Rank 1 stays out of the collectives until both ranks have written where they stand, and then ends.
PROGRAM = """
import gzip, json, os, sys, threading, time
from pathlib import Path

def both_have_written(run, since_ns):
    found = [json.loads(gzip.open(file).read()) for file in run.glob("process-*/stall.json.gz")]
    dumps = [one["recorder"] for one in found if one["recorder"] and one["time_ns"] > since_ns]
    waits = any(not entry["retired"] for dump in dumps for entry in dump["entries"])
    return len(dumps) == 2 and waits

def stay_out(run):
    since_ns = time.time_ns()
    while not both_have_written(run, since_ns):
        time.sleep(0.05)
    os._exit(3)

def train(rank, store):
    os.environ.update(RANK=str(rank), WORLD_SIZE="2")
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(30):
        model(torch.ones(8, 4)).sum().backward()
        if step == AT and rank == 1:
            run = Path(os.environ["STEPWHY_RUN_DIR"])
            if MODE == "hang":
                stay_out(run)
            threading.Thread(target=stay_out, args=(run,), daemon=True).start()
            dist.all_gather([torch.ones(4, 4), torch.ones(4, 4)], model.weight.grad)
        dist.all_reduce(model.weight.grad)
        optimizer.step()
        optimizer.zero_grad()

MODE, AT = sys.argv[1], int(os.environ.get("AT", "25"))
if __name__ == "__main__":
    if len(sys.argv) > 3:
        train(int(sys.argv[3]), sys.argv[2])
    else:
        import subprocess
        ranks = [
            subprocess.Popen([sys.executable, __file__, *sys.argv[1:3], str(rank)])
            for rank in range(2)
        ]
        sys.exit(max(abs(rank.wait()) for rank in ranks))
"""


def run(tmp_path: Path, mode: str, at: int = 25) -> Result:
    script, out = tmp_path / "train.py", tmp_path / "run"
    script.write_text(PROGRAM)
    command = [sys.executable, "-m", "stepwhy", "run", "--out", str(out), str(script), mode]
    subprocess.run(
        [*command, str(tmp_path / "store")],
        env={**os.environ, STALL_VARIABLE: "1", "AT": str(at)},
        capture_output=True,
        check=False,
        timeout=240,
    )
    return explain([str(out)])


def test_a_hang_is_named_with_rank_line_and_collective(tmp_path: Path) -> None:
    result = run(tmp_path, "hang")
    sentence = r"Rank 1 is at train\.py:\d+ and has not entered all_reduce 26; rank 0 waits in it\."
    assert re.match(sentence, result.run.ending)
    found = result.findings[0]
    assert found.id == "hung-collective"
    assert re.search("stay_out|both_have_written", found.evidence[0].where)
    assert found.evidence[1].where.endswith(": train")


def test_a_mismatch_is_named_with_both_lines(tmp_path: Path) -> None:
    result = run(tmp_path, "mismatch")
    sentence = (
        r"Rank 1 called all_gather 26 at \S*train\.py:\d+, where rank 0 called all_reduce at "
        r"\S*train\.py:\d+\."
    )
    assert re.match(sentence, result.run.ending)
    assert result.findings[0].id == "mismatched-collective"


def test_a_hang_in_the_first_step_is_named_as_well(tmp_path: Path) -> None:
    result = run(tmp_path, "hang", at=0)
    sentence = r"Rank 1 is at train\.py:\d+ and has not entered all_reduce 1; rank 0 waits in it\."
    assert re.match(sentence, result.run.ending)
