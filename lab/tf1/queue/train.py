"""Trains from a queue that is filled one example at a time, or from one that keeps up."""

import argparse
import tempfile
from pathlib import Path

import images
import tensorflow.compat.v1 as tf

BATCH = 64


def one_by_one(path, reserve):
    """Each example is a run of its own: one thread reads, decodes and enqueues it."""
    names = tf.train.string_input_producer([path])
    _, record = tf.TFRecordReader().read(names)
    example = tf.io.parse_single_example(record, images.FEATURES)
    tensors = images.decode(example, [])
    return tf.train.shuffle_batch(
        tensors, BATCH, capacity=reserve + 3 * BATCH, min_after_dequeue=reserve
    )


def many_at_once(path, reserve):
    """A run reads, decodes and enqueues as many examples as a batch has."""
    names = tf.train.string_input_producer([path])
    _, records = tf.TFRecordReader().read_up_to(names, BATCH)
    examples = tf.io.parse_example(records, images.FEATURES)
    return tf.train.shuffle_batch(
        images.decode(examples, [-1]),
        BATCH,
        capacity=reserve + 3 * BATCH,
        min_after_dequeue=reserve,
        num_threads=2,
        enqueue_many=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--enqueue", choices=["one", "many"], default="one")
    parser.add_argument("--reserve", type=int, default=200, help="min_after_dequeue")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--channels", type=int, default=8, help="of the network: what a step costs")
    options = parser.parse_args()

    tf.disable_v2_behavior()
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "train.tfrecords")
        images.write(path)
        make = one_by_one if options.enqueue == "one" else many_at_once
        fetches = images.train_op(*make(path, options.reserve), options.channels)
        images.train(fetches, options.steps, BATCH)


if __name__ == "__main__":
    main()
