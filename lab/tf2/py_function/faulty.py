"""Softens the labels by what the model confuses, counted by Python inside the training step."""

import argparse

import digits
import numpy as np
import tensorflow as tf


class Confusion:
    """How often the model takes one class for another, which decides the soft labels."""

    def __init__(self, weight=0.1):
        self.counts = np.ones([digits.CLASSES, digits.CLASSES], np.float32)
        self.weight = weight

    def update(self, labels, logits):
        targets = np.zeros([len(labels), digits.CLASSES], np.float32)
        for row, (label, scores) in enumerate(zip(labels, logits, strict=True)):
            self.counts[label] *= 0.99
            self.counts[label, np.argmax(scores)] += 1
            targets[row] = self.weight * self.counts[label] / self.counts[label].sum()
            targets[row, label] += 1 - self.weight
        return targets

    def __call__(self, labels, logits):
        targets = tf.numpy_function(self.update, [labels, logits], tf.float32)
        return tf.ensure_shape(targets, logits.shape)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--batch", type=int, default=512)
    options = parser.parse_args()

    digits.train(Confusion(), options.batch, options.steps)


if __name__ == "__main__":
    main()
