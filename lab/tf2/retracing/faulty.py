"""Trains on batches that are padded to their longest review: each new length is a new shape."""

import argparse

import reviews
import tensorflow as tf


class Trainer:
    def __init__(self, rate):
        self.model = reviews.Classifier()
        self.optimizer = tf.keras.optimizers.SGD(rate)

    @tf.function
    def train_step(self, words, labels):
        with tf.GradientTape() as tape:
            logits = self.model(words)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            loss = tf.reduce_mean(losses)
        variables = self.model.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--rate", type=float, default=0.1)
    options = parser.parse_args()

    trainer = Trainer(options.rate)
    reviews.train(trainer.train_step, options.batch, options.steps)


if __name__ == "__main__":
    main()
