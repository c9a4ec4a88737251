"""Trains a denoising autoencoder on pieces of a long signal."""

import argparse
import statistics
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

LENGTH = 512


class Pieces(Dataset):
    """Pieces of a sum of waves, from every position."""

    def __init__(self, count, seed=0):
        generator = torch.Generator().manual_seed(seed)
        times = torch.arange(count + LENGTH) / 50
        waves = torch.rand(8, 2, generator=generator)
        self.signal = sum(torch.sin(times * 3 * rate + 6 * phase) for rate, phase in waves)

    def __len__(self):
        return len(self.signal) - LENGTH

    def __getitem__(self, start):
        return self.signal[start : start + LENGTH]


class Autoencoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(LENGTH, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, LENGTH),
        )

    def forward(self, pieces):
        return self.layers(pieces)


class Trainer:
    def __init__(self, loader, width, fresh):
        self.loader, self.fresh = loader, fresh
        self.model = Autoencoder(width)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.batches = None if fresh else self.forever()

    def forever(self):
        while True:
            yield from self.loader

    def next_batch(self):
        return next(iter(self.loader)) if self.fresh else next(self.batches)

    def step(self):
        clean = self.next_batch()
        noisy = clean + 0.3 * torch.randn_like(clean)
        loss = nn.functional.mse_loss(self.model(noisy), clean)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--pieces", type=int, default=500_000)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--batches", choices=["fresh", "lasting"], default="fresh")
    options = parser.parse_args()

    torch.manual_seed(0)
    workers = {"num_workers": options.workers, "persistent_workers": options.workers > 0}
    loader = DataLoader(Pieces(options.pieces), batch_size=128, shuffle=True, **workers)
    trainer, times = Trainer(loader, 1024, options.batches == "fresh"), []
    for step in range(options.steps):
        start = time.perf_counter()
        loss = trainer.step()
        times.append(time.perf_counter() - start)
        if step % 20 == 0:
            print(f"step {step:3d}  loss {loss.item():.3f}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:] or times):.1f} ms")


if __name__ == "__main__":
    main()
