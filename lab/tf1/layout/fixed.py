"""Trains a small image classifier.

Activations are kept channels last, as convolutions on a CPU want them.
"""

import argparse
import os
import statistics
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import tensorflow.compat.v1 as tf

BATCH = 32
LAYERS = [(32, 1), (32, 1), (32, 1), (64, 2)]  # channels and stride
CLASSES = 10


def convolution(inputs, number, channels, stride):
    with tf.variable_scope(f"layer{number}"):
        kernel = tf.get_variable("kernel", [3, 3, inputs.shape[-1], channels])
        net = tf.nn.conv2d(inputs, kernel, strides=stride, padding="SAME")
        bias = tf.get_variable("bias", [channels], initializer=tf.zeros_initializer())
        return tf.nn.relu(net + bias)


def model(images):
    net = images
    for number, (channels, stride) in enumerate(LAYERS, 1):
        net = convolution(net, number, channels, stride)
    net = tf.reduce_mean(net, axis=[1, 2])
    weights = tf.get_variable("weights", [net.shape[-1], CLASSES])
    return tf.matmul(net, weights)


def build(size):
    images = tf.random_uniform([BATCH, size, size, 3])
    labels = tf.random_uniform([BATCH], maxval=CLASSES, dtype=tf.int32)
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=model(images))
    )
    return tf.train.MomentumOptimizer(0.05, 0.9).minimize(loss), loss


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--size", type=int, default=32, help="height and width of an image")
    args = parser.parse_args()

    tf.disable_v2_behavior()
    train, loss = build(args.size)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        times = []
        for step in range(args.steps):
            start = time.perf_counter()
            _, value = session.run([train, loss])
            times.append(time.perf_counter() - start)
            if step % 10 == 0:
                print(f"step {step:3d}  loss {value:.3f}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:] or times):.1f} ms")


if __name__ == "__main__":
    main()
