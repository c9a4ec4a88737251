"""Trains a small convolutional network, and prints its loss and accuracy now and then."""

import argparse
import statistics
import time

import numpy as np
import tensorflow.compat.v1 as tf

CLASSES = 10
SIZE = 28


class Digits:
    """Noisy patterns, one per class."""

    def __init__(self, count, seed=0):
        rng = np.random.default_rng(seed)
        patterns = rng.standard_normal([CLASSES, SIZE, SIZE, 1])
        self.labels = rng.integers(0, CLASSES, count)
        noise = rng.standard_normal([count, SIZE, SIZE, 1])
        self.images = (patterns[self.labels] + 2 * noise).astype(np.float32)
        self.rng = rng

    def batch(self, size):
        rows = self.rng.integers(0, len(self.labels), size)
        return self.images[rows], self.labels[rows]


class Network:
    """Four convolutions and a dense layer."""

    def __init__(self, width, rate):
        self.images = tf.placeholder(tf.float32, [None, SIZE, SIZE, 1], "images")
        self.labels = tf.placeholder(tf.int64, [None], "labels")
        net = self.images
        for layer, (channels, stride) in enumerate([(1, 1), (2, 2), (2, 1), (4, 2)]):
            net = self._convolution(net, width * channels, stride, f"layer{layer}")
        net = tf.reduce_mean(net, [1, 2])
        head = tf.get_variable("head", [net.shape[-1], CLASSES])
        logits = tf.matmul(net, head)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=self.labels, logits=logits)
        self.loss = tf.reduce_mean(losses)
        hits = tf.equal(tf.argmax(logits, 1), self.labels)
        self.accuracy = tf.reduce_mean(tf.cast(hits, tf.float32))
        self.train = tf.train.AdamOptimizer(rate).minimize(self.loss)

    @staticmethod
    def _convolution(net, channels, stride, name):
        with tf.variable_scope(name):
            kernel = tf.get_variable("kernel", [3, 3, net.shape[-1], channels])
            bias = tf.get_variable("bias", [channels], initializer=tf.zeros_initializer())
            return tf.nn.relu(tf.nn.conv2d(net, kernel, [1, stride, stride, 1], "SAME") + bias)


def run_step(session, network, feed, together):
    """Train on one batch; returns its loss and accuracy."""
    if together:
        _, loss, accuracy = session.run([network.train, network.loss, network.accuracy], feed)
        return loss, accuracy
    session.run(network.train, feed)
    loss = session.run(network.loss, feed)
    return loss, session.run(network.accuracy, feed)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--fetch", choices=["separately", "together"], default="separately")
    options = parser.parse_args()

    tf.disable_v2_behavior()
    tf.set_random_seed(0)
    network, digits = Network(options.width, 1e-3), Digits(2000)
    metrics, times = [], []
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for step in range(options.steps):
            images, labels = digits.batch(options.batch)
            feed = {network.images: images, network.labels: labels}
            start = time.perf_counter()
            metrics.append(run_step(session, network, feed, options.fetch == "together"))
            times.append(time.perf_counter() - start)
            if step % 50 == 49:
                loss, accuracy = np.mean(metrics[-50:], axis=0)
                print(f"step {step + 1:3d}  loss {loss:.3f}  accuracy {accuracy:.3f}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:] or times):.1f} ms")


if __name__ == "__main__":
    main()
