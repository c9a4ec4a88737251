"""Softens the labels by what the model confuses, counted by operations of the training step."""

import argparse

import digits
import tensorflow as tf


class Confusion:
    """How often the model takes one class for another, which decides the soft labels."""

    def __init__(self, weight=0.1):
        self.counts = tf.Variable(tf.ones([digits.CLASSES, digits.CLASSES]))
        self.weight = weight

    def __call__(self, labels, logits):
        guesses = tf.argmax(logits, axis=1, output_type=tf.int32)
        known = tf.one_hot(labels, digits.CLASSES)
        found = tf.matmul(known, tf.one_hot(guesses, digits.CLASSES), transpose_a=True)
        decay = 0.99 ** tf.reduce_sum(known, axis=0)
        self.counts.assign(decay[:, None] * self.counts + found)
        share = self.counts / tf.reduce_sum(self.counts, axis=1, keepdims=True)
        return self.weight * tf.gather(share, labels) + (1 - self.weight) * known


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--batch", type=int, default=512)
    options = parser.parse_args()

    digits.train(Confusion(), options.batch, options.steps)


if __name__ == "__main__":
    main()
