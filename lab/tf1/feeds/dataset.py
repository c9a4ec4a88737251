"""Trains on a tf.data pipeline that holds the data."""

import argparse

import network
import numpy as np
import tensorflow.compat.v1 as tf
from network import BATCH, COLUMNS, ROWS


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()

    tf.disable_v2_behavior()
    rows, classes = network.read()
    x = tf.placeholder(tf.float32, [ROWS, COLUMNS])
    y = tf.placeholder(tf.int32, [ROWS])
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).repeat()
    dataset = dataset.batch(BATCH, drop_remainder=True).prefetch(2)
    iterator = tf.data.make_initializable_iterator(dataset)
    fetches = network.train_op(*iterator.get_next())

    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        # The one time that the data is handed over.
        session.run(iterator.initializer, {x: np.asarray(rows, np.float32), y: classes})
        network.train(session, fetches, options.steps)


if __name__ == "__main__":
    main()
