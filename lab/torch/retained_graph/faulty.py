"""Adds up losses with a penalty as tensors, which hold the graph of every step."""

import argparse

import ratings


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument("--every", type=int, default=100)
    options = parser.parse_args()

    total = 0.0

    def record(loss, model):
        nonlocal total
        penalty = sum((w**2).mean() for w in model.parameters())
        total = total + loss + 1e-4 * penalty
        return total.item()

    ratings.train(options, record)


if __name__ == "__main__":
    main()
