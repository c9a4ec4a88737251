"""Trains a network on spectra, in a session that was configured to be reproducible."""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf

BANDS, KINDS = 1024, 32


def spectra(batches, batch):
    """Batches of spectra and their kinds; a spectrum is a noisy copy of one of a few."""
    random = np.random.default_rng(5)
    pure = random.standard_normal([KINDS, BANDS], dtype=np.float32)
    for _ in range(batches):
        kinds = random.integers(0, KINDS, batch)
        yield pure[kinds] + random.standard_normal([batch, BANDS], dtype=np.float32), kinds


class Network:
    """Dense layers, their loss and how to train them."""

    def __init__(self, width, rate):
        self.spectra = tf.placeholder(tf.float32, [None, BANDS], "spectra")
        self.kinds = tf.placeholder(tf.int32, [None], "kinds")
        hidden = self.spectra
        for layer in range(4):
            hidden = tf.nn.relu(self.dense(hidden, width, f"layer_{layer}"))
        scores = self.dense(hidden, KINDS, "scores")
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=self.kinds, logits=scores)
        self.loss = tf.reduce_mean(losses)
        self.train = tf.train.GradientDescentOptimizer(rate).minimize(self.loss)

    @staticmethod
    def dense(inputs, units, name):
        with tf.variable_scope(name):
            size = int(inputs.shape[1])
            start = tf.random_normal_initializer(stddev=(2 / size) ** 0.5, seed=1)
            weights = tf.get_variable("weights", [size, units], initializer=start)
            return tf.matmul(inputs, weights) + tf.get_variable("bias", [units])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--intra-op-threads", type=int, default=1)
    options = parser.parse_args()

    tf.disable_eager_execution()
    network, batches = Network(options.width, 0.01), list(spectra(8, options.batch))
    config = tf.ConfigProto(intra_op_parallelism_threads=options.intra_op_threads)
    with tf.Session(config=config) as session:
        session.run(tf.global_variables_initializer())
        for step in range(1, options.steps + 1):
            inputs, kinds = batches[step % len(batches)]
            feeds = {network.spectra: inputs, network.kinds: kinds}
            loss, _ = session.run([network.loss, network.train], feeds)
            if step % 20 == 0:
                print(f"step {step:3d}  loss {loss:.4f}", flush=True)


if __name__ == "__main__":
    main()
