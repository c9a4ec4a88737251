"""Trains on sketches that were drawn once, before training."""

import argparse

import numpy as np
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

    def dataset(self):
        strokes, labels = sketches.strokes(self.count)
        images = np.stack([self.pen.draw(sketch) for sketch in strokes])
        dataset = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(self.count)
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
