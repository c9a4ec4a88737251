"""Trains a small image classifier on two towers with one optimizer over their mean loss.

The towers are placed, but the gradients are asked for where the loss is, on the parameter host;
they follow their operations only where that is asked for, too.
"""

import argparse
import statistics
import time

import cluster
import tensorflow.compat.v1 as tf

PARAMETER_HOST = "/job:ps/task:0"
TOWERS = ["/job:worker/task:0", "/job:worker/task:1"]
BATCH = 64  # images per tower
CLASSES = 10


def convolution(inputs, kernel):
    return tf.nn.relu(tf.nn.conv2d(inputs, kernel, strides=2, padding="SAME"))


def model(images):
    with tf.device(PARAMETER_HOST):  # the towers share their variables
        kernel1 = tf.get_variable("kernel1", [3, 3, 3, 32])
        kernel2 = tf.get_variable("kernel2", [3, 3, 32, 32])
        weights = tf.get_variable("weights", [32, CLASSES])
    net = convolution(images, kernel1)
    net = convolution(net, kernel2)
    net = tf.reduce_mean(net, axis=[1, 2])
    return tf.matmul(net, weights)


def tower_loss():
    images = tf.random_uniform([BATCH, 96, 96, 3])
    labels = tf.random_uniform([BATCH], maxval=CLASSES, dtype=tf.int32)
    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=model(images))
    )


def build(colocate):
    losses = []
    for i, device in enumerate(TOWERS):
        with (
            tf.device(device),
            tf.name_scope(f"tower_{i}"),
            tf.variable_scope("model", reuse=i > 0),
        ):
            losses.append(tower_loss())
    with tf.device(PARAMETER_HOST):
        loss = tf.add_n(losses) / len(TOWERS)
        optimizer = tf.train.GradientDescentOptimizer(0.05)
        return optimizer.minimize(loss, colocate_gradients_with_ops=colocate), loss


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--colocate", action="store_true")
    parser.add_argument("--steps", type=int, default=50)
    options = parser.parse_args()

    tf.disable_v2_behavior()
    target = cluster.start(workers=len(TOWERS))
    train, loss = build(options.colocate)
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
