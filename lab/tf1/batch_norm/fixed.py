"""Trains a small image classifier.

Batch normalisation is one fused operation.
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
DECAY = 0.9
EPSILON = 1e-3


def batch_norm(inputs):
    channels = inputs.shape[-1]
    with tf.variable_scope("bn"):
        beta = tf.get_variable("beta", [channels], initializer=tf.zeros_initializer())
        gamma = tf.get_variable("gamma", [channels], initializer=tf.ones_initializer())
        net, mean, variance = tf.nn.fused_batch_norm(inputs, gamma, beta, epsilon=EPSILON)
        keep_statistics(mean, variance)
        return net


def keep_statistics(mean, variance):
    """The running mean and variance, for inference."""
    for name, value, start in (("mean", mean, 0.0), ("variance", variance, 1.0)):
        running = tf.get_variable(
            f"moving_{name}", value.shape, initializer=tf.constant_initializer(start),
            trainable=False,
        )  # fmt: skip
        update = tf.assign_sub(running, (1 - DECAY) * (running - value), name=f"update_{name}")
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, update)


def convolution(inputs, number, channels, stride):
    with tf.variable_scope(f"layer{number}"):
        kernel = tf.get_variable("kernel", [3, 3, inputs.shape[-1], channels])
        net = tf.nn.conv2d(inputs, kernel, strides=stride, padding="SAME")
        return tf.nn.relu(batch_norm(net))


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
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
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
