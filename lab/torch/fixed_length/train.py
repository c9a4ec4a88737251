"""Trains a classifier of reviews: words, convolutions, and the largest value of each channel."""

import argparse
import random
import statistics
import time

import torch
from torch import nn
from torch.utils.data import DataLoader

PADDING = 0
WORDS = 5000


class Classifier(nn.Module):
    """Two convolutions over the words of a review.

    Args:
        width: Channels of each layer.
    """

    def __init__(self, width):
        super().__init__()
        self.words = nn.Embedding(WORDS, width, padding_idx=PADDING)
        self.layers = nn.ModuleList(nn.Conv1d(width, width, 3, padding=1) for _ in range(3))
        self.head = nn.Linear(width, 2)

    def forward(self, words):
        is_padding = words.eq(PADDING).unsqueeze(1)
        hidden = self.words(words).transpose(1, 2)
        for layer in self.layers:
            hidden = torch.relu(layer(hidden)).masked_fill(is_padding, 0)
        return self.head(hidden.amax(2))


def make_reviews(count):
    """Reviews of 12 to 48 words, each with its rating."""
    numbers = random.Random(5)
    reviews = []
    for _ in range(count):
        rating = numbers.randrange(2)
        words = range(1 + 2000 * rating, WORDS - 2000 * (1 - rating))
        reviews.append((numbers.choices(words, k=numbers.randint(12, 48)), rating))
    return reviews


def padded(length):
    """Makes batches of reviews, padded to a length, or without one to the longest of the batch."""

    def collate(reviews):
        columns = length or max(len(words) for words, _ in reviews)
        batch = torch.full([len(reviews), columns], PADDING)
        for row, (words, _) in zip(batch, reviews, strict=True):
            row[: len(words)] = torch.tensor(words)
        return batch, torch.tensor([rating for _, rating in reviews])

    return collate


def train(options):
    torch.manual_seed(5)
    model = Classifier(options.width)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    reviews = make_reviews(options.steps * options.batch)
    loader = DataLoader(reviews, options.batch, shuffle=True, collate_fn=padded(options.length))
    times, start = [], time.perf_counter()
    for step, (words, ratings) in enumerate(loader):
        loss = nn.functional.cross_entropy(model(words), ratings)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(time.perf_counter() - start)
        start = time.perf_counter()
        if (step + 1) % 50 == 0:
            print(f"step {step + 1:3d}  loss {loss.item():.4f}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:]):.1f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--length", type=int, help="pad all batches to so many words")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--width", type=int, default=96)
    train(parser.parse_args())


if __name__ == "__main__":
    main()
