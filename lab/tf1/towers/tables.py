"""Trains a click model on many categorical features, whose tables live on the parameter host."""

import argparse
import statistics
import time

import cluster
import numpy as np
import tensorflow.compat.v1 as tf

FEATURES = 120
VALUES = 1000  # values of each feature
WIDTH = 16
HIDDEN = 256


def separate_tables(ids):
    """One table for each feature; each lookup is sent to the worker by itself."""
    looked_up = []
    for i in range(FEATURES):
        table = tf.get_variable(f"feature_{i}", [VALUES, WIDTH])
        looked_up.append(tf.nn.embedding_lookup(table, ids[:, i]))
    return looked_up


def joined_table(ids):
    """One table for all features, and one lookup."""
    table = tf.get_variable("features", [FEATURES * VALUES, WIDTH])
    rows = ids + tf.range(FEATURES) * VALUES
    return [tf.reshape(tf.nn.embedding_lookup(table, rows), [-1, FEATURES * WIDTH])]


def dense(inputs, name, size, units):
    return tf.matmul(inputs, tf.get_variable(name, [size, units]))


def build(options):
    ids = tf.placeholder(tf.int32, [None, FEATURES])
    labels = tf.placeholder(tf.float32, [None, 1])
    setter = tf.train.replica_device_setter(ps_tasks=1, worker_device="/job:worker/task:0")
    with tf.device(setter):
        with tf.device("/job:ps/task:0"):
            parts = joined_table(ids) if options.joined else separate_tables(ids)
        net = tf.concat(parts, axis=1)
        net = tf.nn.relu(dense(net, "hidden", FEATURES * WIDTH, HIDDEN))
        logits = dense(net, "output", HIDDEN, 1)
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))
        optimizer = tf.train.GradientDescentOptimizer(0.1)
        train = optimizer.minimize(loss, colocate_gradients_with_ops=True)
    return ids, labels, train, loss


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--joined", action="store_true")
    options = parser.parse_args()

    tf.disable_v2_behavior()
    target = cluster.start(workers=1)
    ids, labels, train, loss = build(options)
    random = np.random.default_rng(1)
    with tf.Session(target) as session:
        session.run(tf.global_variables_initializer())
        times = []
        for step in range(options.steps):
            batch = random.integers(VALUES, size=[options.batch_size, FEATURES], dtype=np.int32)
            clicked = (batch[:, :1] % 2).astype(np.float32)
            start = time.perf_counter()
            _, value = session.run([train, loss], {ids: batch, labels: clicked})
            times.append(time.perf_counter() - start)
            if step % 20 == 0:
                print(f"step {step:3d}  loss {value:.3f}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:] or times):.1f} ms")


if __name__ == "__main__":
    main()
