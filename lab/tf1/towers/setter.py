"""Trains a small image classifier on two towers, with a setter of devices.

The variables live on the parameter host; a setter that gets no worker places everything else on the
first one.
"""

import argparse
import statistics
import time

import cluster
import tensorflow.compat.v1 as tf

PARAMETER_HOST = "/job:ps/task:0"
TOWERS = 2
BATCH = 64  # images per tower
CLASSES = 10


def convolution(inputs, kernel):
    return tf.nn.relu(tf.nn.conv2d(inputs, kernel, strides=2, padding="SAME"))


def model(images):
    kernel1 = tf.get_variable("kernel1", [3, 3, 3, 32])
    kernel2 = tf.get_variable("kernel2", [3, 3, 32, 32])
    weights = tf.get_variable("weights", [32, CLASSES])
    net = convolution(images, kernel1)
    net = convolution(net, kernel2)
    net = tf.reduce_mean(net, axis=[1, 2])
    return tf.matmul(net, weights)


def tower_gradients(optimizer):
    images = tf.random_uniform([BATCH, 96, 96, 3])
    labels = tf.random_uniform([BATCH], maxval=CLASSES, dtype=tf.int32)
    logits = model(images)
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )
    return loss, optimizer.compute_gradients(loss)


def setter(worker):
    return tf.train.replica_device_setter(ps_tasks=1, worker_device=worker)


def build(spread):
    optimizer = tf.train.GradientDescentOptimizer(0.05)
    losses, gradients = [], []
    for i in range(TOWERS):
        with (
            tf.device(setter(f"/job:worker/task:{i}" if spread else "/job:worker")),
            tf.name_scope(f"tower_{i}"),
            tf.variable_scope("model", reuse=i > 0),
        ):
            loss, grads = tower_gradients(optimizer)
        losses.append(loss)
        gradients.append(grads)
    with tf.device(PARAMETER_HOST):
        mean = [
            (tf.add_n([gradient for gradient, _ in pairs]) / TOWERS, pairs[0][1])
            for pairs in zip(*gradients, strict=True)
        ]
        return optimizer.apply_gradients(mean), tf.add_n(losses) / TOWERS


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--spread", action="store_true")
    options = parser.parse_args()

    tf.disable_v2_behavior()
    target = cluster.start(workers=TOWERS)
    train, loss = build(options.spread)
    with tf.Session(target) as session:
        session.run(tf.global_variables_initializer())
        times = []
        for step in range(options.steps):
            start = time.perf_counter()
            _, value = session.run([train, loss])
            times.append(time.perf_counter() - start)
            if step % 10 == 0:
                print(f"step {step:3d}  loss {value:.3f}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:] or times):.1f} ms")


if __name__ == "__main__":
    main()
