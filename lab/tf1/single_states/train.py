"""Trains a Q-network of a TensorFlow session on transitions of a replay memory."""

import argparse
import statistics
import time

import numpy as np
import tensorflow.compat.v1 as tf

STATE, ACTIONS, DISCOUNT = 8, 4, 0.99


class Memory:
    """Random transitions."""

    def __init__(self, count):
        rng = np.random.default_rng(0)
        self.states = rng.standard_normal([count, STATE]).astype(np.float32)
        self.following = (0.9 * self.states + rng.standard_normal([count, STATE])).astype("f4")
        self.rewards, self.actions = self.states[:, 0], rng.integers(0, ACTIONS, count)
        self.rng = rng

    def sample(self, size):
        rows = self.rng.integers(0, len(self.states), size)
        return self.states[rows], self.actions[rows], self.rewards[rows], self.following[rows]


class Network:
    def __init__(self, width):
        self.states = tf.placeholder(tf.float32, [None, STATE], "states")
        self.targets = tf.placeholder(tf.float32, [None, ACTIONS], "targets")
        hidden = self._dense(self.states, width, "first", tf.nn.relu)
        self.values = self._dense(hidden, ACTIONS, "last")
        self.loss = tf.reduce_mean(tf.square(self.values - self.targets))
        self.train = tf.train.AdamOptimizer(1e-3).minimize(self.loss)

    @staticmethod
    def _dense(net, size, name, activation=tf.identity):
        with tf.variable_scope(name):
            kernel = tf.get_variable("kernel", [net.shape[-1], size])
            bias = tf.get_variable("bias", [size], initializer=tf.zeros_initializer())
            return activation(tf.matmul(net, kernel) + bias)


def best_values(session, network, states, how):
    """The value of the best action in each state."""
    if how == "batch":
        return session.run(network.values, {network.states: states}).max(axis=1)
    rows = [session.run(network.values, {network.states: [state]}) for state in states]
    return np.concatenate(rows).max(axis=1)


def train_step(session, network, memory, options):
    states, actions, rewards, following = memory.sample(options.batch)
    targets = session.run(network.values, {network.states: states})
    best = best_values(session, network, following, options.values)
    targets[np.arange(len(actions)), actions] = rewards + DISCOUNT * best
    feed = {network.states: states, network.targets: targets}
    return session.run([network.train, network.loss], feed)[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--values", choices=["one", "batch"], default="one")
    options = parser.parse_args()

    tf.disable_v2_behavior()
    tf.set_random_seed(0)
    network, memory, times = Network(options.width), Memory(5000), []
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for step in range(options.steps):
            start = time.perf_counter()
            loss = train_step(session, network, memory, options)
            times.append(time.perf_counter() - start)
            if step % 50 == 49:
                print(f"step {step + 1:3d}  loss {loss:.3f}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:] or times):.1f} ms")


if __name__ == "__main__":
    main()
