"""Hashes the words of each sentence anew in each step, in Python, between two steps."""

import argparse
import zlib

import numpy as np
import sentences


class Hasher:
    """Puts each word into a bucket by its parts of three letters, so that no word is unknown."""

    def bucket(self, word):
        parts = [word[i : i + 3] for i in range(max(len(word) - 2, 1))]
        return sum(zlib.crc32(part.encode()) for part in parts) % sentences.BUCKETS + 1

    def encode(self, text):
        buckets = [self.bucket(word.strip(".,;:!?")) for word in text.lower().split()]
        return buckets + [0] * (sentences.LENGTH - len(buckets))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=256)
    options = parser.parse_args()

    hasher = Hasher()
    texts, labels = sentences.load(4096)

    def batch_of(chosen):
        return np.array([hasher.encode(texts[i]) for i in chosen], np.int32)

    sentences.train(batch_of, labels, options.batch, options.steps)


if __name__ == "__main__":
    main()
