"""A small classifier of measurements, and its data as it comes out of a CSV or JSON file."""

import statistics
import time

import numpy as np
import tensorflow.compat.v1 as tf

ROWS = 1024
COLUMNS = 1024
CLASSES = 10
BATCH = 256


def read():
    """The measurements, a list of numbers for each row, and the class of each row."""
    random = np.random.default_rng(0)
    rows = random.standard_normal([ROWS, COLUMNS]).tolist()
    return rows, random.integers(0, CLASSES, ROWS).tolist()


def train_op(rows, classes):
    """One step of the classifier on a batch.

    Args:
        rows: float32 [batch, COLUMNS].
        classes: int32 [batch].
    """
    net = rows
    for i, units in enumerate([64, CLASSES]):
        weights = tf.get_variable(f"weights{i}", [net.shape[-1], units])
        net = tf.nn.tanh(tf.matmul(net, weights)) if units != CLASSES else tf.matmul(net, weights)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=classes, logits=net)
    loss = tf.reduce_mean(losses)
    return tf.train.GradientDescentOptimizer(0.1).minimize(loss), loss


def train(session, fetches, steps, feed=None):
    """Run the steps, and say how long one takes.

    Args:
        session: The session.
        fetches: What `train_op` returned.
        steps: How many.
        feed: Makes the `feed_dict` of a step; None where nothing is fed.
    """
    times = []
    for step in range(steps):
        start = time.perf_counter()
        _, loss = session.run(fetches, feed(step) if feed else None)
        times.append(time.perf_counter() - start)
        if step % 50 == 0:
            print(f"step {step:3d}  loss {loss:.3f}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:] or times):.1f} ms")
