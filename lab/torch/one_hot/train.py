"""Predicts the category of a product from the words of its title."""

import argparse
import statistics
import time

import torch
from torch import nn
from torch.nn import functional

WORDS, CATEGORIES, TITLES = 6000, 20, 4096


class WordVectors(nn.Module):
    """A vector for each word of a title.

    Args:
        width: Numbers in a vector.
        lookup: Whether to look the vectors up.
    """

    def __init__(self, width, lookup):
        super().__init__()
        self.lookup = lookup
        self.vectors = nn.Parameter(0.02 * torch.randn(WORDS, width))

    def forward(self, words):
        if self.lookup:
            return functional.embedding(words, self.vectors)
        return functional.one_hot(words, WORDS).float() @ self.vectors


class Classifier(nn.Module):
    """The category of a title, by what its words share."""

    def __init__(self, width, lookup):
        super().__init__()
        self.words = WordVectors(width, lookup)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.category = nn.Linear(width, CATEGORIES)

    def forward(self, titles):
        return self.category(self.encoder(self.words(titles)).mean(1))


def make_titles(length):
    """Titles and categories; a category has words of its own."""
    random = torch.Generator().manual_seed(5)
    categories = torch.randint(0, CATEGORIES, [TITLES], generator=random)
    words = torch.randint(0, WORDS, [TITLES, length], generator=random)
    words[:, ::3] = words[:, ::3] % (WORDS // CATEGORIES) + categories[:, None]
    return words, categories


def train(options):
    torch.manual_seed(5)
    titles, categories = make_titles(options.length)
    model = Classifier(options.width, options.vectors == "lookup")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    times = []
    for step in range(options.steps):
        start = time.perf_counter()
        chosen = torch.randint(0, TITLES, [options.batch])
        loss = functional.cross_entropy(model(titles[chosen]), categories[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(time.perf_counter() - start)
        if (step + 1) % 20 == 0:
            print(f"step {step + 1:3d}  loss {loss.item():.4f}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:]):.1f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vectors", choices=["product", "lookup"], default="product")
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--batch", type=int, default=24)
    parser.add_argument("--length", type=int, default=32)
    parser.add_argument("--width", type=int, default=128)
    train(parser.parse_args())


if __name__ == "__main__":
    main()
