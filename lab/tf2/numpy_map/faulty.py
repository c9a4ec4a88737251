"""Trains on sketches that a Python function draws in Dataset.map."""

import argparse

import sketches
import tensorflow as tf


class Pipeline:
    """Batches of drawn sketches.

    Args:
        count: Sketches in the data set.
        batch: Sketches in a batch.
    """

    def __init__(self, count, batch):
        self.count, self.batch = count, batch
        self.pen = sketches.Pen()

    def prepare(self, strokes, label):
        image = tf.numpy_function(self.pen.draw, [strokes], tf.float32)
        return tf.ensure_shape(image, [sketches.SIDE, sketches.SIDE, 1]), label

    def dataset(self):
        dataset = tf.data.Dataset.from_tensor_slices(sketches.strokes(self.count))
        dataset = dataset.shuffle(self.count).map(self.prepare, num_parallel_calls=tf.data.AUTOTUNE)
        return dataset.batch(self.batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--sketches", type=int, default=2048)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--width", type=int, default=16)
    options = parser.parse_args()

    dataset = Pipeline(options.sketches, options.batch).dataset()
    sketches.build(options.width).fit(dataset, epochs=options.epochs, verbose=2)


if __name__ == "__main__":
    main()
