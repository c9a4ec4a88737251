"""Trains on batches that are padded to their longest review: each new length is a new shape."""

import argparse

import jax
import reviews


def longest(texts):
    return max(map(len, texts))


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

    reviews.train(train_step, longest, options.batch, options.steps)


if __name__ == "__main__":
    main()
