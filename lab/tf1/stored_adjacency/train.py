"""Trains a network on the nodes of a graph, and prints its loss now and then."""

import argparse
import statistics
import time

import numpy as np
import tensorflow.compat.v1 as tf

CLASSES = 4


def random_graph(rng, nodes, degree):
    """A symmetric matrix of edges; (nodes, nodes)."""
    edges = rng.random([nodes, nodes]) < degree / nodes / 2
    return (edges | edges.T | np.eye(nodes, dtype=bool)).astype(np.float32)


def two_hops(adjacency):
    """The normalised matrix of paths with two edges, by NumPy."""
    degrees = adjacency.sum(1, keepdims=True)
    normalised = adjacency / np.sqrt(degrees) / np.sqrt(degrees.T)
    return normalised @ normalised


def two_hops_in_graph(adjacency):
    """The same by operations of the graph."""
    degrees = tf.reduce_sum(adjacency, 1, keepdims=True)
    normalised = adjacency / tf.sqrt(degrees) / tf.sqrt(tf.transpose(degrees))
    return tf.matmul(normalised, normalised)


class Network:
    """Two layers, each of which adds up the features of neighbours."""

    def __init__(self, adjacency, width, features, in_graph):
        stored = adjacency if in_graph else two_hops(adjacency)
        matrix = tf.get_variable("matrix", initializer=stored, trainable=False)
        hops = two_hops_in_graph(matrix) if in_graph else matrix
        self.features = tf.placeholder(tf.float32, [None, features], "features")
        self.labels = tf.placeholder(tf.int64, [None], "labels")
        first = tf.get_variable("first", [features, width])
        second = tf.get_variable("second", [width, CLASSES])
        hidden = tf.nn.relu(tf.matmul(hops, tf.matmul(self.features, first)))
        logits = tf.matmul(hops, tf.matmul(hidden, second))
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=self.labels, logits=logits)
        self.loss = tf.reduce_mean(losses)
        self.train = tf.train.AdamOptimizer(1e-2).minimize(self.loss)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--nodes", type=int, default=1600)
    parser.add_argument("--features", type=int, default=128)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--hops", choices=["graph", "numpy"], default="graph")
    options = parser.parse_args()

    tf.disable_v2_behavior()
    tf.set_random_seed(0)
    rng = np.random.default_rng(0)
    adjacency = random_graph(rng, options.nodes, degree=20)
    network = Network(adjacency, options.width, options.features, options.hops == "graph")
    labels = rng.integers(0, CLASSES, options.nodes)
    centres = rng.standard_normal([CLASSES, options.features])
    times = []
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for step in range(options.steps):
            noise = rng.standard_normal([options.nodes, options.features], dtype=np.float32)
            feed = {network.features: centres[labels] + 3 * noise, network.labels: labels}
            start = time.perf_counter()
            _, loss = session.run([network.train, network.loss], feed)
            times.append(time.perf_counter() - start)
            if step % 20 == 19:
                print(f"step {step + 1}: loss {loss:.4f}", flush=True)
    print(f"median step: {1e3 * statistics.median(times):.1f} ms")


if __name__ == "__main__":
    main()
