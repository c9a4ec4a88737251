"""Trains a classifier with one large dense layer on two towers.

Its variables live on the parameter host, so that every tower fetches them in each step; or each
tower keeps a mirror of them, and the towers exchange gradients alone.
"""

import argparse
import contextlib
import statistics
import time

import cluster
import tensorflow.compat.v1 as tf

PARAMETER_HOST = "/job:ps/task:0"
BATCH = 64  # examples per tower
FEATURES, HIDDEN, CLASSES = 2048, 1024, 10


def model(features, place_of_variables):
    with place_of_variables:
        initial = tf.random_normal_initializer(stddev=0.02, seed=1)  # mirrors begin alike
        hidden = tf.get_variable("hidden", [FEATURES, HIDDEN], initializer=initial)
        classes = tf.get_variable("classes", [HIDDEN, CLASSES], initializer=initial)
    return tf.matmul(tf.nn.relu(tf.matmul(features, hidden)), classes)


def tower(optimizer, mirrored):
    features = tf.random_uniform([BATCH, FEATURES])
    labels = tf.random_uniform([BATCH], maxval=CLASSES, dtype=tf.int32)
    place = contextlib.nullcontext() if mirrored else tf.device(PARAMETER_HOST)
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=model(features, place))
    )
    return loss, optimizer.compute_gradients(loss, tf.trainable_variables(tower_scope()))


def tower_scope():
    return tf.get_variable_scope().name + "/"


def mean_of(gradients):
    """(mean gradient, variable) of every variable, from the gradients of all towers."""
    return [
        (tf.add_n([gradient for gradient, _ in pairs]) / len(pairs), pairs[0][1])
        for pairs in zip(*gradients, strict=True)
    ]


def build(devices, mirrored):
    optimizer = tf.train.GradientDescentOptimizer(0.01)
    losses, gradients = [], []
    for i, device in enumerate(devices):
        scope = f"mirror_{i}" if mirrored else "model"
        with (
            tf.device(device),
            tf.name_scope(f"tower_{i}"),
            tf.variable_scope(scope, reuse=i > 0 and not mirrored),
        ):
            loss, grads = tower(optimizer, mirrored)
        losses.append(loss)
        gradients.append(grads)
    if not mirrored:
        with tf.device(PARAMETER_HOST):
            return optimizer.apply_gradients(mean_of(gradients)), tf.add_n(losses)
    updates = []
    for i, device in enumerate(devices):  # all of them apply the same mean
        with tf.device(device):
            others = [grads for k, grads in enumerate(gradients) if k != i]
            updates.append(optimizer.apply_gradients(mean_of([gradients[i], *others])))
    return tf.group(*updates), tf.add_n(losses)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mirrored", action="store_true")
    parser.add_argument("--towers", type=int, default=2)
    parser.add_argument("--steps", type=int, default=50)
    options = parser.parse_args()

    tf.disable_v2_behavior()
    target = cluster.start(workers=options.towers)
    devices = [f"/job:worker/task:{i}" for i in range(options.towers)]
    train, loss = build(devices, options.mirrored)
    with tf.Session(target) as session:
        session.run(tf.global_variables_initializer())
        times = []
        for step in range(options.steps):
            start = time.perf_counter()
            _, value = session.run([train, loss])
            times.append(time.perf_counter() - start)
            if step % 10 == 0:
                print(f"step {step:3d}  loss {value / options.towers:.3f}", flush=True)
    median = statistics.median(times[5:] or times)
    rate = options.towers * BATCH / median
    print(f"median step {1000 * median:.1f} ms, {rate:.0f} examples/s")


if __name__ == "__main__":
    main()
