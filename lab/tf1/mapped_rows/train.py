"""Learns which product a query leads to: the scores of each query are weighted by its prices."""

import argparse
import statistics
import time

import numpy as np
import tensorflow.compat.v1 as tf

WORDS, PRODUCTS, WIDTH = 64, 48, 32


def dense(values, width, name):
    """A fully connected layer over the last dimension."""
    with tf.variable_scope(name):
        kernel = tf.get_variable("kernel", [int(values.shape[-1]), width])
        return tf.tensordot(values, kernel, [[-1], [0]])


def matched(query, products, prices):
    """Scores of the products for one query, or for a batch of queries."""
    scores = tf.linalg.matvec(products, query)
    weights = tf.nn.softmax(-prices)
    return tf.nn.log_softmax(scores * weights)


def scores_of(queries, products, prices, row_by_row):
    """Scores of the products of each query."""
    if row_by_row:
        rows = (queries, products, prices)
        return tf.map_fn(lambda row: matched(*row), rows, dtype=tf.float32)
    return matched(queries, products, prices)


def examples(random, batch):
    """Queries, their products with prices, and the product that was bought."""
    return (
        random.normal(size=[batch, WORDS]).astype(np.float32),
        random.normal(size=[batch, PRODUCTS, WORDS]).astype(np.float32),
        random.uniform(size=[batch, PRODUCTS]).astype(np.float32),
        random.integers(0, PRODUCTS, batch),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--rows", choices=["mapped", "together"], default="mapped")
    options = parser.parse_args()

    tf.disable_eager_execution()
    queries = tf.placeholder(tf.float32, [None, WORDS])
    products = tf.placeholder(tf.float32, [None, PRODUCTS, WORDS])
    prices = tf.placeholder(tf.float32, [None, PRODUCTS])
    bought = tf.placeholder(tf.int64, [None])
    query, product = dense(queries, WIDTH, "query"), dense(products, WIDTH, "product")
    scores = scores_of(query, product, prices, options.rows == "mapped")
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=bought, logits=scores)
    loss = tf.reduce_mean(losses)
    train = tf.train.AdamOptimizer(1e-3).minimize(loss)
    random, times = np.random.default_rng(0), []
    batches = [examples(random, options.batch) for _ in range(16)]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for step in range(options.steps):
            values = batches[step % len(batches)]
            start = time.perf_counter()
            feeds = dict(zip((queries, products, prices, bought), values, strict=True))
            _, value = session.run([train, loss], feeds)
            times.append(time.perf_counter() - start)
            if step % 40 == 39:
                print(f"step {step:3d}  loss {value:.4f}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:] or times):.1f} ms")


if __name__ == "__main__":
    main()
