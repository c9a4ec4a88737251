"""Trains a tagger of words on two processes; the first one scores its predictions."""

import argparse
import os
import statistics
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WORDS, TAGS = 3000, 24


class Tagger(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, width)
        self.memory = nn.Sequential(
            nn.Conv1d(width, width, 5, padding=2),
            nn.ReLU(),
            nn.Conv1d(width, width, 5, padding=2),
            nn.ReLU(),
        )
        self.output = nn.Linear(width, TAGS)

    def forward(self, words):
        features = self.memory(self.embedding(words).transpose(1, 2))
        return self.output(features.transpose(1, 2))


def edit_distance(ours, theirs):
    """Insertions, deletions and replacements that turn one sequence into the other."""
    row = list(range(len(theirs) + 1))
    for place, tag in enumerate(ours, 1):
        diagonal, row[0] = row[0], place
        for column, expected in enumerate(theirs, 1):
            changed = diagonal + (tag != expected)
            diagonal = row[column]
            row[column] = min(changed, diagonal + 1, row[column - 1] + 1)
    return row[-1]


class ErrorRate:
    """Mean edit distance per word."""

    def __init__(self):
        self.errors = self.words = 0

    def add(self, predicted, expected):
        for ours, theirs in zip(predicted.tolist(), expected.tolist(), strict=True):
            self.errors += edit_distance(ours, theirs)
            self.words += len(theirs)

    def value(self):
        return self.errors / max(self.words, 1)


class Trainer:
    def __init__(self, options, rank):
        torch.manual_seed(1)
        torch.set_num_threads(1)
        self.options, self.rank = options, rank
        self.model = DistributedDataParallel(Tagger(options.width))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)
        self.random = torch.Generator().manual_seed(rank)
        self.error_rate = ErrorRate()

    def batch(self):
        size = (self.options.batch, self.options.length)
        words = torch.randint(0, WORDS, size, generator=self.random)
        return words, words % TAGS

    def step(self, number):
        words, tags = self.batch()
        logits = self.model(words)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tags.flatten())
        if self.rank == 0 and number % self.options.score_every == 0:
            self.error_rate.add(logits.argmax(dim=-1), tags)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss

    def train(self):
        times = []
        for number in range(self.options.steps):
            start = time.perf_counter()
            loss = self.step(number)
            times.append(time.perf_counter() - start)
            if self.rank == 0 and number % 30 == 0:
                print(f"step {number:3d}  loss {loss.item():.3f}", flush=True)
        if self.rank == 0:
            print(f"error rate: {self.error_rate.value():.3f}")
            print(f"median step {1000 * statistics.median(times):.1f} ms")


def run(rank, options):
    dist.init_process_group("gloo", rank=rank, world_size=2)
    Trainer(options, rank).train()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=90)
    parser.add_argument("--score-every", type=int, default=100, help="steps")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=48)
    parser.add_argument("--width", type=int, default=64)
    options = parser.parse_args()

    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29532")
    mp.spawn(run, args=(options,), nprocs=2)


if __name__ == "__main__":
    main()
