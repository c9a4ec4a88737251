"""Trains six sigmoid layers on two towers, as its author believes.

Three CPU devices of this process stand for the parameter device and two GPUs.
"""

import argparse
import os
import statistics
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import tensorflow.compat.v1 as tf

PARAMETER_DEVICE = "/cpu:0"
TOWERS = ["/cpu:1", "/cpu:2"]
BLOCKS = 6
WIDTH = 256
BATCH = 128  # examples per tower


def block(inputs, number):
    weights = tf.get_variable(f"weights_{number}", [WIDTH, WIDTH])
    bias = tf.get_variable(f"bias_{number}", [WIDTH])
    return tf.sigmoid(tf.matmul(inputs, weights) + bias)


def tower(features, targets):
    for number in range(BLOCKS):
        features = block(features, number)
    return tf.reduce_mean(tf.square(features - targets))


def build():
    losses = []
    for i, device in enumerate(TOWERS):
        with (
            tf.device(device),
            tf.name_scope(f"tower_{i}"),
            tf.variable_scope("model", reuse=i > 0),
        ):
            features = tf.random_uniform([BATCH, WIDTH])
            targets = tf.random_uniform([BATCH, WIDTH])
            with tf.device(PARAMETER_DEVICE):  # the towers share their variables
                loss = tower(features, targets)
        losses.append(loss)
    with tf.device(PARAMETER_DEVICE):
        loss = tf.add_n(losses) / len(TOWERS)
        variables = tf.trainable_variables()
        gradients = tf.gradients(loss, variables, colocate_gradients_with_ops=True)
        clipped, _ = tf.clip_by_global_norm(gradients, 1.0)
        train = tf.train.AdamOptimizer(0.001).apply_gradients(zip(clipped, variables, strict=True))
    return train, loss


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    steps = parser.parse_args().steps

    tf.disable_v2_behavior()
    train, loss = build()
    config = tf.ConfigProto(device_count={"CPU": 1 + len(TOWERS)})
    with tf.Session(config=config) as session:
        session.run(tf.global_variables_initializer())
        times = []
        for step in range(steps):
            start = time.perf_counter()
            _, value = session.run([train, loss])
            times.append(time.perf_counter() - start)
            if step % 20 == 0:
                print(f"step {step:3d}  loss {value:.4f}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:] or times):.2f} ms")


if __name__ == "__main__":
    main()
