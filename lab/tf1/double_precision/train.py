"""Classifies spectra of minerals with a small convolutional network in a session."""

import argparse
import statistics
import time

import numpy as np
import tensorflow.compat.v1 as tf

CHANNELS, KINDS = 256, 12


def spectra(count=2048):
    """Spectra with a peak that depends on the mineral, and the number of the mineral."""
    random = np.random.default_rng(0)
    kinds = random.integers(0, KINDS, count)
    channel = np.arange(CHANNELS)
    peaks = np.exp(-np.square((channel - 20 * kinds[:, None] - 10) / 8.0))
    return peaks + 0.3 * random.normal(size=(count, CHANNELS)), kinds


def dense(values, width, name):
    """A fully connected layer of the type of its input."""
    with tf.variable_scope(name):
        size = int(values.shape[-1])
        start = tf.random_normal_initializer(stddev=(2.0 / size) ** 0.5, seed=0)
        kernel = tf.get_variable("kernel", [size, width], values.dtype, start)
        bias = tf.get_variable("bias", [width], values.dtype, tf.zeros_initializer())
        return tf.matmul(values, kernel) + bias


def convolution(values, filters, name):
    """A convolution along the channels, of the type of its input."""
    with tf.variable_scope(name):
        size = int(values.shape[-1])
        start = tf.random_normal_initializer(stddev=(2.0 / (5 * size)) ** 0.5, seed=0)
        kernel = tf.get_variable("kernel", [5, size, filters], values.dtype, start)
        return tf.nn.relu(tf.nn.conv1d(values, kernel, stride=2, padding="SAME"))


def network(values):
    """Logits of the kinds of mineral."""
    hidden = convolution(values[:, :, None], 32, "first")
    hidden = convolution(hidden, 64, "second")
    hidden = tf.reshape(hidden, [-1, 64 * CHANNELS // 4])
    hidden = tf.nn.relu(dense(hidden, 256, "hidden"))
    return dense(hidden, KINDS, "output")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--dtype", choices=["float32", "float64"], default="float64")
    options = parser.parse_args()

    tf.disable_eager_execution()
    values, kinds = spectra()
    values = values.astype(options.dtype)
    batch = tf.placeholder(options.dtype, [None, CHANNELS])
    labels = tf.placeholder(tf.int64, [None])
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=network(batch))
    loss = tf.reduce_mean(losses)
    train = tf.train.MomentumOptimizer(0.01, 0.9).minimize(loss)
    random, times = np.random.default_rng(1), []
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for step in range(options.steps):
            chosen = random.integers(0, len(values), options.batch)
            start = time.perf_counter()
            feeds = {batch: values[chosen], labels: kinds[chosen]}
            _, value = session.run([train, loss], feeds)
            times.append(time.perf_counter() - start)
            if step % 40 == 39:
                print(f"step {step:3d}  loss {value:.4f}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:] or times):.1f} ms")


if __name__ == "__main__":
    main()
