"""Trains a small network on series that are smoothed when a batch needs them."""

import argparse
import statistics
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

LENGTH, WINDOW = 256, 6


class Series(Dataset):
    """Random walks, with the sign of their mean as a label."""

    def __init__(self, count, smooth):
        steps = np.random.default_rng(0).standard_normal((count, LENGTH))
        self.rows = steps.cumsum(1).astype(np.float32)
        self.labels = (self.rows.mean(1) > 0).astype(np.int64)
        self.smooth = {"elements": by_elements, "arrays": by_arrays}[smooth]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return torch.from_numpy(self.smooth(self.rows[i]))[None], self.labels[i]


def by_elements(row):
    smoothed = np.zeros_like(row)
    for place in range(len(row)):
        first, total = max(0, place - WINDOW + 1), 0.0
        for value in row[first : place + 1]:
            total += value
        smoothed[place] = total / (place + 1 - first)
    return smoothed


def by_arrays(row):
    sums = np.concatenate([np.zeros(1), row.cumsum(dtype=np.float64)])
    firsts = np.maximum(np.arange(1, len(row) + 1) - WINDOW, 0)
    ends = np.arange(1, len(row) + 1)
    return ((sums[ends] - sums[firsts]) / (ends - firsts)).astype(np.float32)


def network(width):
    return nn.Sequential(
        nn.Conv1d(1, width, 9, stride=4),
        nn.ReLU(),
        nn.Conv1d(width, 2 * width, 9, stride=4),
        nn.ReLU(),
        nn.AdaptiveAvgPool1d(1),
        nn.Flatten(),
        nn.Linear(2 * width, 2),
    )


def forever(loader):
    while True:
        yield from loader


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--smooth", choices=["elements", "arrays"], default="elements")
    options = parser.parse_args()

    torch.manual_seed(0)
    model, times = network(options.width), []
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loader = DataLoader(Series(2048, options.smooth), options.batch, shuffle=True)
    start, batches = time.perf_counter(), forever(loader)
    for step in range(options.steps):
        series, labels = next(batches)
        loss = nn.functional.cross_entropy(model(series), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(time.perf_counter() - start)
        start = time.perf_counter()
        if step % 50 == 49:
            print(f"step {step + 1:3d}  loss {loss.item():.3f}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:] or times):.1f} ms")


if __name__ == "__main__":
    main()
