"""Trains a small network on recordings that lie in a large file, in random order.

Pages of the file do not stay in memory, as on a machine with less memory than data.
"""

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

CHANNELS = 16
LENGTH = 4096
WINDOW_BYTES = 4 * CHANNELS * LENGTH


def write_recordings(path, count):
    """Write noise, and drop it from the page cache."""
    rng = np.random.default_rng(0)
    with Path(path).open("wb") as file:
        file.writelines(rng.random(CHANNELS * LENGTH, np.float32).data for _ in range(count))
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class Recordings(Dataset):
    """Windows of a recording, a batch at a time; each is read when it is asked for."""

    def __init__(self, path, count):
        self.count, self.file = count, os.open(path, os.O_RDONLY)
        os.posix_fadvise(self.file, 0, 0, os.POSIX_FADV_RANDOM)

    def __len__(self):
        return self.count

    def __getitem__(self, rows):
        windows = torch.empty(len(rows), CHANNELS, LENGTH)
        for window, row in zip(windows.numpy(), rows, strict=True):
            os.preadv(self.file, [window], row * WINDOW_BYTES)
        os.posix_fadvise(self.file, 0, 0, os.POSIX_FADV_DONTNEED)
        return windows


class Classifier(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(
            nn.AvgPool1d(16),
            nn.Conv1d(CHANNELS, width, 9, stride=2),
            nn.ReLU(),
            nn.Conv1d(width, width, 9, stride=2),
            nn.ReLU(),
            nn.AdaptiveAvgPool1d(1),
            nn.Flatten(),
            nn.Linear(width, 4),
        )

    def forward(self, recordings):
        return self.layers(recordings)


def forever(loader):
    while True:
        yield from loader


def train(options, path):
    dataset = Recordings(path, options.samples)
    batches = BatchSampler(RandomSampler(dataset), options.batch, drop_last=True)
    loader = DataLoader(
        dataset,
        batch_size=None,
        sampler=batches,
        num_workers=options.workers,
        persistent_workers=options.workers > 0,
    )
    model, times = Classifier(16), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    start, batches = time.perf_counter(), forever(loader)
    for step in range(options.steps):
        recordings = next(batches)
        loss = nn.functional.cross_entropy(model(recordings), recordings[:, 0, 0].mul(4).long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(time.perf_counter() - start)
        start = time.perf_counter()
        if step % 20 == 0:
            print(f"step {step:3d}  loss {loss.item():.3f}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:] or times):.1f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--samples", type=int, default=2048)
    parser.add_argument("--workers", type=int, default=0)
    options = parser.parse_args()

    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "recordings.bin"
        write_recordings(path, options.samples)
        train(options, path)


if __name__ == "__main__":
    main()
