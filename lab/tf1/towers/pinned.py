"""Trains six sigmoid layers on two towers of a cluster.

The variables live on the parameter host; the layers run on the towers, or where a scope inside the
towers pins them.
"""

import argparse
import statistics
import time

import cluster
import tensorflow.compat.v1 as tf

PARAMETER_HOST = "/job:ps/task:0"
TOWERS = ["/job:worker/task:0", "/job:worker/task:1"]
BLOCKS = 6
WIDTH = 64  # small variables: what crosses between the processes are activations
BATCH = 8192  # examples per tower


def pinned_block(inputs, number):
    with tf.device(PARAMETER_HOST):  # whatever uses the variables, too
        weights = tf.get_variable(f"weights_{number}", [WIDTH, WIDTH])
        bias = tf.get_variable(f"bias_{number}", [WIDTH])
        return tf.sigmoid(tf.matmul(inputs, weights) + bias)


def block(inputs, number):
    with tf.device(PARAMETER_HOST):
        weights = tf.get_variable(f"weights_{number}", [WIDTH, WIDTH])
        bias = tf.get_variable(f"bias_{number}", [WIDTH])
    return tf.sigmoid(tf.matmul(inputs, weights) + bias)


def tower_gradients(layer):
    features = tf.random_uniform([BATCH, WIDTH])
    targets = tf.random_uniform([BATCH, WIDTH])
    outputs = features
    for number in range(BLOCKS):
        outputs = layer(outputs, number)
    loss = tf.reduce_mean(tf.square(outputs - targets))
    return loss, tf.gradients(loss, tf.trainable_variables())


def build(layer):
    losses, gradients = [], []
    for i, device in enumerate(TOWERS):
        with (
            tf.device(device),
            tf.name_scope(f"tower_{i}"),
            tf.variable_scope("model", reuse=i > 0),
        ):
            loss, grads = tower_gradients(layer)
        losses.append(loss)
        gradients.append(grads)
    with tf.device(PARAMETER_HOST):
        mean = [tf.add_n(of_towers) / len(TOWERS) for of_towers in zip(*gradients, strict=True)]
        clipped, _ = tf.clip_by_global_norm(mean, 1.0)
        train = tf.train.AdamOptimizer(0.001).apply_gradients(
            zip(clipped, tf.trainable_variables(), strict=True)
        )
        return train, tf.add_n(losses) / len(TOWERS)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--released", action="store_true")
    options = parser.parse_args()

    tf.disable_v2_behavior()
    target = cluster.start(workers=len(TOWERS))
    train, loss = build(block if options.released else pinned_block)
    with tf.Session(target) as session:
        session.run(tf.global_variables_initializer())
        times = []
        for step in range(options.steps):
            start = time.perf_counter()
            _, value = session.run([train, loss])
            times.append(time.perf_counter() - start)
            if step % 10 == 0:
                print(f"step {step:3d}  loss {value:.4f}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:] or times):.1f} ms")


if __name__ == "__main__":
    main()
