"""Trains on batches that queue runners make of the data."""

import argparse

import network
import numpy as np
import tensorflow.compat.v1 as tf
from network import BATCH


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()

    tf.disable_v2_behavior()
    rows, classes = network.read()
    data = [np.asarray(rows, np.float32), np.asarray(classes, np.int32)]
    row, label = tf.train.slice_input_producer(data, shuffle=False)
    fetches = network.train_op(*tf.train.batch([row, label], BATCH, num_threads=2))

    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coordinator)
        network.train(session, fetches, options.steps)
        coordinator.request_stop()
        coordinator.join(threads)


if __name__ == "__main__":
    main()
