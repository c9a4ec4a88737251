"""Trains on batches that are padded to one of a few lengths, so that few shapes are compiled."""

import argparse

import jax
import reviews

LENGTHS = (96, 128)


def next_length(texts):
    longest = max(map(len, texts))
    return next(length for length in LENGTHS if longest <= length)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--rate", type=float, default=0.1)
    options = parser.parse_args()

    @jax.jit
    def train_step(params, words, labels):
        loss, gradients = jax.value_and_grad(reviews.loss_of)(params, words, labels)
        return jax.tree.map(lambda p, g: p - options.rate * g, params, gradients), loss

    reviews.train(train_step, next_length, options.batch, options.steps)


if __name__ == "__main__":
    main()
