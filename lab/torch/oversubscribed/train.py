"""Trains an autoencoder on sensor data, with the number of threads of another machine."""

import argparse
import statistics
import time

import torch
from torch import nn

SAMPLES, CHANNELS = 8192, 256


class Autoencoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(CHANNELS, width), nn.GELU(), nn.Linear(width, 32))
        self.decoder = nn.Sequential(nn.Linear(32, width), nn.GELU(), nn.Linear(width, CHANNELS))

    def forward(self, samples):
        return self.decoder(self.encoder(samples))


class Trainer:
    def __init__(self, options):
        torch.manual_seed(1)
        self.steps = options.steps
        self.model = Autoencoder(options.width)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3, fused=True)
        self.batches = torch.randn(SAMPLES, CHANNELS).split(options.batch)
        self.times = []

    def step(self, samples):
        noisy = samples + 0.1 * torch.randn_like(samples)
        loss = nn.functional.mse_loss(self.model(noisy), samples)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def run(self):
        while len(self.times) < self.steps:
            for samples in self.batches:
                start = time.perf_counter()
                loss = self.step(samples)
                self.times.append(time.perf_counter() - start)
                if len(self.times) % 50 == 0:
                    print(f"step {len(self.times):3d}  loss {loss:.4f}", flush=True)
        print(f"median step {1000 * statistics.median(self.times[5:]):.1f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--threads", type=int, default=16, help="0: as many as there are cores")
    options = parser.parse_args()

    if options.threads:
        torch.set_num_threads(options.threads)
    Trainer(options).run()


if __name__ == "__main__":
    main()
