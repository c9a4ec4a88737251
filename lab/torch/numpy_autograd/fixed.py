"""Ranks softly by PyTorch's own operations, which it differentiates itself."""

import argparse

import ranking
import torch


def soft_rank(scores, temperature):
    """How many items have a higher score: a sum of sigmoids over all pairs."""
    above = (scores[:, None, :] - scores[:, :, None]) / temperature
    return torch.sigmoid(above).sum(2)


def loss_of(scores, wanted):
    ranks = soft_rank(scores, 0.5)
    return (ranks - soft_rank(wanted, 0.5)).square().mean() / scores.shape[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--batch", type=int, default=24)
    parser.add_argument("--items", type=int, default=96)
    options = parser.parse_args()

    ranking.train(loss_of, options.batch, options.items, options.steps)


if __name__ == "__main__":
    main()
