"""Trains a recommender, with the number of threads that a script of a cluster left."""

import argparse
import statistics
import time

import torch
from torch import nn

ITEMS, PEOPLE = 2048, 8192


class Recommender(nn.Module):
    """Reconstructs how much someone likes each item from a part of it.

    Args:
        width: Units of the hidden layers.
    """

    def __init__(self, width):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(ITEMS, width), nn.GELU(), nn.Linear(width, 256))
        self.decoder = nn.Sequential(nn.GELU(), nn.Linear(256, width), nn.GELU())
        self.items = nn.Linear(width, ITEMS)

    def forward(self, liked):
        return self.items(self.decoder(self.encoder(liked)))


class Training:
    """Trains on the same people in every epoch, and drops other items each time."""

    def __init__(self, options):
        torch.manual_seed(3)
        self.steps, self.keep = options.steps, 0.7
        self.model = Recommender(options.width)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        self.batches = torch.rand(PEOPLE, ITEMS).split(options.batch)
        self.times = []

    def step(self, liked):
        start = time.perf_counter()
        shown = nn.functional.dropout(liked, 1 - self.keep)
        loss = nn.functional.binary_cross_entropy_with_logits(self.model(shown), liked)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.times.append(time.perf_counter() - start)
        return loss.item()

    def run(self):
        while len(self.times) < self.steps:
            for liked in self.batches[: self.steps - len(self.times)]:
                loss = self.step(liked)
                if len(self.times) % 20 == 0:
                    print(f"step {len(self.times):3d}  loss {loss:.4f}", flush=True)
        print(f"median step {1000 * statistics.median(self.times[5:]):.1f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--threads", type=int, default=1, help="0: as many as there are cores")
    options = parser.parse_args()

    if options.threads:
        torch.set_num_threads(options.threads)
    Training(options).run()


if __name__ == "__main__":
    main()
