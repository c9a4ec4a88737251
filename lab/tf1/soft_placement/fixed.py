"""Trains a small network on the device that there is: the GPU, or else the CPU.

It asks first, and turns soft placement off, so that a device that is missing is an error.
"""

import argparse
import statistics
import time

import tensorflow.compat.v1 as tf

DEVICE = "/gpu:0" if tf.config.list_physical_devices("GPU") else "/cpu:0"
BATCH = 256
WIDTH = 1024
CLASSES = 10


def model(features):
    for layer in range(3):
        weights = tf.get_variable(f"weights_{layer}", [WIDTH, WIDTH])
        features = tf.nn.relu(tf.matmul(features, weights))
    return tf.matmul(features, tf.get_variable("classes", [WIDTH, CLASSES]))


def build():
    with tf.device(DEVICE):
        features = tf.random_uniform([BATCH, WIDTH])
        labels = tf.random_uniform([BATCH], maxval=CLASSES, dtype=tf.int32)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=labels, logits=model(features)
        )
        loss = tf.reduce_mean(losses)
        return tf.train.GradientDescentOptimizer(0.01).minimize(loss), loss


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60)
    steps = parser.parse_args().steps

    tf.disable_v2_behavior()
    train, loss = build()
    config = tf.ConfigProto(allow_soft_placement=False)
    with tf.Session(config=config) as session:
        session.run(tf.global_variables_initializer())
        times = []
        for step in range(steps):
            start = time.perf_counter()
            _, value = session.run([train, loss])
            times.append(time.perf_counter() - start)
            if step % 10 == 0:
                print(f"step {step:3d}  loss {value:.3f}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:] or times):.1f} ms")


if __name__ == "__main__":
    main()
