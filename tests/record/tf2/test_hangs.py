"""A worker of TensorFlow that does not take part in a step, with the real framework."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.record.hung_ranks import hung_collective

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.framework

TRAIN = """
def train(rank, addresses):
    import json

    config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": rank}}
    os.environ["TF_CONFIG"] = json.dumps(config)
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
            stay_out()
        update(tf.ones((8, 4))).numpy()
"""


def test_the_worker_that_the_other_waits_for_is_named_with_its_line(tmp_path: Path) -> None:
    hung_collective(tmp_path, TRAIN, "3", r"\S+ \(tensorflow\)")
