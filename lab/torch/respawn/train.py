"""Trains a small network on few samples, so that an epoch takes less than a second."""

import argparse
import statistics
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, random_split

SAMPLES, FEATURES, CLASSES = 1024, 2048, 4


class Spectra(Dataset):
    """Measured spectra, smoothed when they are asked for."""

    def __init__(self):
        random = np.random.default_rng(0)
        self.spectra = random.random([SAMPLES, FEATURES], np.float32)
        self.labels = random.integers(0, CLASSES, SAMPLES)
        self.window = np.hanning(31).astype(np.float32)

    def __len__(self):
        return SAMPLES

    def __getitem__(self, i):
        smooth = np.convolve(self.spectra[i], self.window / self.window.sum(), mode="same")
        return torch.from_numpy(smooth), self.labels[i]


class Network(nn.Sequential):
    def __init__(self, width):
        super().__init__(
            nn.Linear(FEATURES, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, CLASSES),
        )


class Trainer:
    def __init__(self, options):
        self.model = Network(options.width)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)
        self.loss = nn.CrossEntropyLoss()
        training, validation = random_split(Spectra(), [0.9, 0.1])
        about = {"num_workers": options.workers, "persistent_workers": options.persistent}
        if options.spawn:
            about["multiprocessing_context"] = "spawn"
        self.training = DataLoader(training, options.batch, shuffle=True, drop_last=True, **about)
        self.validation = DataLoader(validation, options.batch)
        self.times = []

    def epoch(self):
        self.model.train()
        start = time.perf_counter()
        for spectra, labels in self.training:
            self.optimizer.zero_grad()
            self.loss(self.model(spectra), labels).backward()
            self.optimizer.step()
            self.times.append(time.perf_counter() - start)
            start = time.perf_counter()

    @torch.no_grad()
    def accuracy(self):
        self.model.eval()
        right = [(self.model(x).argmax(1) == y).float().mean() for x, y in self.validation]
        return torch.stack(right).mean().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--persistent", action="store_true", help="keep the workers")
    parser.add_argument("--spawn", action="store_true", help="start new interpreters")
    options = parser.parse_args()

    torch.set_num_threads(1)  # the workers need the other cores
    trainer = Trainer(options)
    for epoch in range(options.epochs):
        trainer.epoch()
        print(f"epoch {epoch:2d}  accuracy {trainer.accuracy():.2f}", flush=True)
    times = trainer.times
    print(f"step: median {1e3 * statistics.median(times):.1f} ms, mean "
          f"{1e3 * statistics.mean(times):.1f} ms")  # fmt: skip


if __name__ == "__main__":
    main()
