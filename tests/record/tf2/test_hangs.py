"""A worker of TensorFlow that does not take part in a step, with the real framework."""

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
import json, os, socket, subprocess, sys, time
from pathlib import Path

def stay_out(run):
    while len(list(run.glob("process-*/stall.json.gz"))) < 2:
        time.sleep(0.05)
    os._exit(3)

def train(rank):
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        weights = tf.Variable(tf.ones((4, 4)))
        optimizer = tf.keras.optimizers.SGD(0.01)
        optimizer.build([weights])

    @tf.function
    def update(batch):
        def one(batch):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((batch @ weights) ** 2)
            optimizer.apply_gradients([(tape.gradient(loss, weights), weights)])
            return loss
        return strategy.reduce("SUM", strategy.run(one, args=(batch,)), axis=None)

    for step in range(30):
        if step == 25 and rank == 1:
            stay_out(Path(os.environ["STEPWHY_RUN_DIR"]))
        update(tf.ones((8, 4))).numpy()

def free_address():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"

if len(sys.argv) > 1:
    train(int(sys.argv[1]))
else:
    workers = [free_address(), free_address()]
    ranks = []
    for rank in range(2):
        config = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": rank}}
        environ = {**os.environ, "TF_CONFIG": json.dumps(config)}
        ranks.append(subprocess.Popen([sys.executable, __file__, str(rank)], env=environ))
    ranks[1].wait()
    ranks[0].kill()
    sys.exit(3)
"""


def test_the_worker_that_the_other_waits_for_is_named_with_its_line(tmp_path: Path) -> None:
    script, out = tmp_path / "train.py", tmp_path / "run"
    script.write_text(PROGRAM)
    subprocess.run(
        [sys.executable, "-m", "stepwhy", "run", "--quiet", "--out", str(out), str(script)],
        env={**os.environ, STALL_VARIABLE: "3"},
        check=False,
    )
    result = explain([str(out)])
    at = r"at train\.py:\d+"
    sentence = rf"Rank 1 is in sleep \(time\) {at}; rank 0 waits in \S+ \(tensorflow\) {at}\."
    assert re.match(sentence, result.run.ending)
    found = result.findings[0]
    assert found.id == "hung-collective"
    assert found.evidence[0].where.endswith(": stay_out")
