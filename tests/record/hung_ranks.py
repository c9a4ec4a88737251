"""Run two ranks, of which one stays out of a step until both have written where they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

from stepwhy.engine.explain import explain
from stepwhy.record.steps.stall_watch import STALL_VARIABLE

if TYPE_CHECKING:
    from pathlib import Path

    from stepwhy.result.result import Finding

# A program adds `train(rank, addresses)`, in which rank 1 calls `stay_out`.
_PROGRAM = """
import itertools, os, random, socket, subprocess, sys, time
from pathlib import Path

def stay_out():
    run = Path(os.environ["STEPWHY_RUN_DIR"])
    while len(list(run.glob("process-*/stall.json.gz"))) < 2:
        time.sleep(0.05)
    os._exit(3)

{train}

def free_addresses():
    # Linux gives the ports from 32,768 on to outgoing connections, before the ranks listen.
    ports = random.SystemRandom().sample(range(20_000, 32_000), 20)
    for port in ports:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)):
                yield f"127.0.0.1:{{port}}"

if len(sys.argv) > 1:
    train(int(sys.argv[1]), sys.argv[2:])
else:
    addresses = list(itertools.islice(free_addresses(), 2))
    command = [sys.executable, __file__]
    ranks = [subprocess.Popen([*command, str(rank), *addresses]) for rank in range(2)]
    ranks[1].wait()
    ranks[0].kill()
    sys.exit(3)
"""


def hung_collective(tmp_path: Path, train: str, stall_s: str, waits_in: str) -> Finding:
    """Observe a training whose ranks hang, and check which of them is said to hold it up.

    Args:
        tmp_path: Receives the program and the run.
        train: Source of the training function.
        stall_s: Seconds after which a process writes where it stands.
        waits_in: Pattern of the function, and the package, that rank 0 waits in.

    Returns:
        The first finding, which is about the hang.
    """
    script, out = tmp_path / "train.py", tmp_path / "run"
    script.write_text(_PROGRAM.format(train=train.strip()))
    subprocess.run(
        [sys.executable, "-m", "stepwhy", "run", "--quiet", "--out", str(out), str(script)],
        env={**os.environ, STALL_VARIABLE: stall_s},
        check=False,
    )
    result = explain([str(out)])
    at = r"at train\.py:\d+"
    sentence = rf"Rank 1 is in sleep \(time\) {at}; rank 0 waits in {waits_in} {at}\."
    assert re.match(sentence, result.run.ending)
    found = result.findings[0]
    assert found.id == "hung-collective"
    assert found.evidence[0].value == "1"
    assert found.evidence[0].where.endswith(": stay_out")
    return found
