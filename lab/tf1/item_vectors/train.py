"""Learns vectors of items, so that those that were bought together are alike."""

import argparse
import statistics
import time

import numpy as np
import tensorflow.compat.v1 as tf

ITEMS, WIDTH, BASKET = 60_000, 64, 8


def loss_of(table, baskets, bought, kernel):
    """How badly the mean of a basket, behind a layer, predicts the item that was bought."""
    context = tf.reduce_mean(tf.nn.embedding_lookup(table, baskets), axis=1)
    context = tf.tanh(context @ kernel)
    candidates = tf.nn.embedding_lookup(table, bought)
    scores = tf.matmul(context, candidates, transpose_b=True)
    own = tf.range(tf.shape(bought)[0])
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=own, logits=scores)
    return tf.reduce_mean(losses)


def train_op(loss, table, kernel, optimizer):
    """One step: Adam for all variables, or Adagrad for the table and Adam for the rest."""
    adam = tf.train.AdamOptimizer(1e-3)
    if optimizer == "adam":
        return adam.minimize(loss)
    of_table = tf.train.AdagradOptimizer(0.1).minimize(loss, var_list=[table])
    return tf.group(of_table, adam.minimize(loss, var_list=[kernel]))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--optimizer", choices=("adam", "adagrad"), default="adam")
    options = parser.parse_args()

    tf.disable_eager_execution()
    table = tf.get_variable("items", [ITEMS, WIDTH], use_resource=False)
    kernel = tf.get_variable("kernel", [WIDTH, WIDTH])
    baskets = tf.placeholder(tf.int32, [None, BASKET])
    bought = tf.placeholder(tf.int32, [None])
    loss = loss_of(table, baskets, bought, kernel)
    train = train_op(loss, table, kernel, options.optimizer)
    random, times = np.random.default_rng(0), []
    shopping = random.integers(0, ITEMS, [16, options.batch, BASKET + 1])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for step in range(options.steps):
            rows = shopping[step % len(shopping)]
            start = time.perf_counter()
            feeds = {baskets: rows[:, :-1], bought: rows[:, -1]}
            _, value = session.run([train, loss], feeds)
            times.append(time.perf_counter() - start)
            if step % 20 == 0:
                print(f"step {step:3d}  loss {value:.4f}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:] or times):.1f} ms")


if __name__ == "__main__":
    main()
