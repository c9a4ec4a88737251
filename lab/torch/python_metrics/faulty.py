"""Counts right and wrong pixels one by one, each read with .item()."""

import argparse

import classifier


class Confusion:
    def __init__(self):
        self.counts = [[0] * classifier.CLASSES for _ in range(classifier.CLASSES)]

    def update(self, guesses, labels):
        for guess, label in zip(guesses.flatten(), labels.flatten(), strict=True):
            self.counts[label.item()][guess.item()] += 1

    def accuracy(self):
        right = sum(self.counts[i][i] for i in range(classifier.CLASSES))
        return right / sum(map(sum, self.counts))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=16)
    options = parser.parse_args()

    classifier.train(Confusion(), options.batch, options.steps)


if __name__ == "__main__":
    main()
