"""Feeds each batch to the session: the lists that were read, or parts of an array made of them."""

import argparse

import network
import numpy as np
import tensorflow.compat.v1 as tf
from network import BATCH, COLUMNS, ROWS


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", choices=["lists", "float64", "float32"], default="lists")
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()

    tf.disable_v2_behavior()
    rows, classes = network.read()
    if options.data != "lists":
        rows = np.asarray(rows, options.data)
        classes = np.asarray(classes, np.int32)
    x = tf.placeholder(tf.float32, [None, COLUMNS])
    y = tf.placeholder(tf.int32, [None])
    fetches = network.train_op(x, y)

    def feed(step):
        first = step * BATCH % ROWS
        return {x: rows[first : first + BATCH], y: classes[first : first + BATCH]}

    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        network.train(session, fetches, options.steps, feed)


if __name__ == "__main__":
    main()
