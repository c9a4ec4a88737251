"""Trains a recurrent network to predict the next character, and prints its perplexity."""

import argparse
import statistics
import time

import numpy as np
import tensorflow.compat.v1 as tf

CHARACTERS = 64


class Text:
    """Characters that follow each other with fixed probabilities."""

    def __init__(self, length, seed=0):
        self.rng = np.random.default_rng(seed)
        follows = self.rng.dirichlet(np.full(CHARACTERS, 0.1), CHARACTERS).cumsum(axis=1)
        draws = self.rng.random(length)
        self.codes = np.zeros(length, np.int32)
        for i in range(1, length):
            code = np.searchsorted(follows[self.codes[i - 1]], draws[i])
            self.codes[i] = min(code, CHARACTERS - 1)

    def batch(self, size, length):
        starts = self.rng.integers(0, len(self.codes) - length - 1, size)
        rows = starts[:, None] + np.arange(length + 1)
        return self.codes[rows]


class Network:
    """A gated recurrent unit, unrolled over the characters of a batch."""

    def __init__(self, width, length, rate):
        self.codes = tf.placeholder(tf.int32, [None, length + 1], "codes")
        table = tf.get_variable("embedding", [CHARACTERS, width])
        self.gates = tf.get_variable("gates", [2 * width, 2 * width])
        self.candidate = tf.get_variable("candidate", [2 * width, width])
        head = tf.get_variable("head", [width, CHARACTERS])
        state = tf.zeros([tf.shape(self.codes)[0], width])
        states = []
        for position in range(length):
            state = self._next(tf.gather(table, self.codes[:, position]), state)
            states.append(state)
        logits = tf.tensordot(tf.stack(states, axis=1), head, [[2], [0]])
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=self.codes[:, 1:], logits=logits
        )
        self.loss = tf.reduce_mean(losses)
        self.perplexity = tf.exp(self.loss)
        self.train = tf.train.AdamOptimizer(rate).minimize(self.loss)

    def _next(self, inputs, state):
        """The state after one more character."""
        both = tf.concat([inputs, state], 1)
        reset, update = tf.split(tf.sigmoid(tf.matmul(both, self.gates)), 2, 1)
        found = tf.tanh(tf.matmul(tf.concat([inputs, reset * state], 1), self.candidate))
        return update * state + (1 - update) * found


def run_step(session, network, feed, together):
    """Train on one batch; returns its perplexity."""
    if together:
        return session.run([network.train, network.perplexity], feed)[1]
    session.run(network.train, feed)
    return session.run(network.perplexity, feed)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--length", type=int, default=24)
    parser.add_argument("--width", type=int, default=192)
    parser.add_argument("--fetch", choices=["separately", "together"], default="separately")
    options = parser.parse_args()

    tf.disable_v2_behavior()
    tf.set_random_seed(0)
    network, text = Network(options.width, options.length, 2e-3), Text(50_000)
    found, times = [], []
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for step in range(options.steps):
            feed = {network.codes: text.batch(options.batch, options.length)}
            start = time.perf_counter()
            found.append(run_step(session, network, feed, options.fetch == "together"))
            times.append(time.perf_counter() - start)
            if step % 50 == 49:
                print(f"step {step + 1:3d}  perplexity {np.mean(found[-50:]):.2f}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:] or times):.1f} ms")


if __name__ == "__main__":
    main()
