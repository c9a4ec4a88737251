"""A process of JAX that does not take part in a step, with the real framework."""

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

pytestmark = pytest.mark.framework

# Rank 1 stays out of a step until both have written where they stand, and then ends.
PROGRAM = """
import os, socket, sys, time
from pathlib import Path

def stay_out(run):
    while len(list(run.glob("process-*/stall.json.gz"))) < 2:
        time.sleep(0.05)
    os._exit(3)

def train(rank, address):
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(address, 2, rank)
    mesh = Mesh(np.array(jax.devices()), ("rank",))
    split = NamedSharding(mesh, PartitionSpec("rank"))

    @jax.jit
    def update(weights, batch):
        return weights - 0.1 * jax.grad(lambda w: jnp.mean((batch @ w) ** 2))(weights)

    weights = jax.device_put(np.ones((4, 4), np.float32), NamedSharding(mesh, PartitionSpec()))
    for step in range(30):
        batch = jax.make_array_from_process_local_data(split, np.ones((8, 4), np.float32))
        if step == 25 and rank == 1:
            stay_out(Path(os.environ["STEPWHY_RUN_DIR"]))
        weights = update(weights, batch)
        weights.block_until_ready()

def free_address():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"

if len(sys.argv) > 2:
    train(int(sys.argv[2]), sys.argv[1])
else:
    import subprocess
    address = free_address()
    ranks = [
        subprocess.Popen([sys.executable, __file__, address, str(rank)]) for rank in range(2)
    ]
    ranks[1].wait()
    ranks[0].kill()
    sys.exit(3)
"""


def test_the_process_that_the_other_waits_for_is_named_with_its_line(tmp_path: Path) -> None:
    script, out = tmp_path / "train.py", tmp_path / "run"
    script.write_text(PROGRAM)
    subprocess.run(
        [sys.executable, "-m", "stepwhy", "run", "--quiet", "--out", str(out), str(script)],
        env={**os.environ, STALL_VARIABLE: "2"},
        check=False,
    )
    result = explain([str(out)])
    # On a CPU, the compiled function itself waits for the other process, or the array does.
    at = r"at train\.py:\d+"
    sentence = rf"Rank 1 is in sleep \(time\) {at}; rank 0 waits in \w+ \(jax\) {at}\."
    assert re.match(sentence, result.run.ending)
    found = result.findings[0]
    assert found.id == "hung-collective"
    assert found.evidence[0].value == "1"
    assert found.evidence[0].where.endswith(": stay_out")
    assert found.evidence[1].where.endswith(": train")
