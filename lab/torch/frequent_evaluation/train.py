"""Trains a classifier of feature vectors, and measures its accuracy from time to time."""

import argparse
import statistics
import time

import torch
from torch import nn

FEATURES, CLASSES = 128, 20


class Classifier(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.input = nn.Linear(FEATURES, width)
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(depth)])
        self.output = nn.Linear(width, CLASSES)

    def forward(self, features):
        hidden = self.input(features)
        for layer in self.layers:
            hidden = hidden + torch.relu(layer(hidden))
        return self.output(hidden)


def samples(count, seed):
    """Feature vectors of some classes, with noise."""
    random = torch.Generator().manual_seed(seed)
    centres = torch.randn(CLASSES, FEATURES, generator=torch.Generator().manual_seed(0))
    labels = torch.randint(0, CLASSES, (count,), generator=random)
    return centres[labels] + 4 * torch.randn(count, FEATURES, generator=random), labels


class Trainer:
    def __init__(self, options):
        torch.manual_seed(0)
        torch.set_num_threads(1)
        self.options = options
        self.model = Classifier(options.width, options.depth)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)
        self.loss = nn.CrossEntropyLoss()
        self.training = samples(options.batch * 100, seed=1)
        self.validation = samples(options.validation, seed=2)

    def step(self, number):
        start = number % 100 * self.options.batch
        features, labels = (part[start : start + self.options.batch] for part in self.training)
        self.optimizer.zero_grad()
        loss = self.loss(self.model(features), labels)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    @torch.no_grad()
    def accuracy(self):
        parts = (part.split(256) for part in self.validation)
        right = [(self.model(x).argmax(1) == y).sum() for x, y in zip(*parts, strict=True)]
        return (sum(right) / len(self.validation[1])).item()

    def train(self):
        times = []
        for number in range(self.options.steps):
            begin = time.perf_counter()
            self.step(number)
            if (number + 1) % self.options.evaluate_every == 0:
                print(f"step {number + 1}  accuracy {self.accuracy():.3f}", flush=True)
            times.append(time.perf_counter() - begin)
        print(f"step: median {1e3 * statistics.median(times):.1f} ms, mean "
              f"{1e3 * statistics.mean(times):.1f} ms")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--depth", type=int, default=6)
    parser.add_argument("--validation", type=int, default=16384)
    parser.add_argument("--evaluate-every", type=int, default=200, metavar="STEPS")
    Trainer(parser.parse_args()).train()


if __name__ == "__main__":
    main()
