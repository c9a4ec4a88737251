"""Trains an autoencoder of spectra on two processes, with gradients of several micro-batches."""

import argparse
import contextlib
import os
import statistics
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

BANDS = 512


class Autoencoder(nn.Module):
    def __init__(self, width, code):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(BANDS, width), nn.GELU(), nn.Linear(width, width), nn.GELU(),
            nn.Linear(width, code),
        )  # fmt: skip
        self.decoder = nn.Sequential(
            nn.Linear(code, width), nn.GELU(), nn.Linear(width, width), nn.GELU(),
            nn.Linear(width, BANDS),
        )  # fmt: skip

    def forward(self, spectra):
        return self.decoder(self.encoder(spectra))


class Trainer:
    def __init__(self, options, rank):
        torch.manual_seed(1)
        torch.set_num_threads(1)
        self.options, self.rank = options, rank
        self.model = DistributedDataParallel(Autoencoder(options.width, 32))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.random = torch.Generator().manual_seed(rank)

    def micro_batch(self):
        peaks = torch.rand(self.options.batch, 1, generator=self.random)
        axis = torch.linspace(0, 1, BANDS)
        return torch.exp(-200 * (axis - peaks) ** 2)

    def step(self):
        count, total = self.options.accumulate, 0.0
        for micro in range(count):
            waits = self.options.no_sync and micro < count - 1
            with self.model.no_sync() if waits else contextlib.nullcontext():
                spectra = self.micro_batch()
                loss = nn.functional.mse_loss(self.model(spectra), spectra) / count
                loss.backward()
            total += loss.detach()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return total

    def train(self):
        times = []
        for number in range(self.options.steps):
            start = time.perf_counter()
            loss = self.step()
            times.append(time.perf_counter() - start)
            if self.rank == 0 and number % 20 == 0:
                print(f"step {number:3d}  loss {float(loss):.4f}", flush=True)
        if self.rank == 0:
            print(f"median step {1000 * statistics.median(times):.1f} ms")


def run(rank, options):
    dist.init_process_group("gloo", rank=rank, world_size=2)
    Trainer(options, rank).train()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--accumulate", type=int, default=4, help="micro-batches per step")
    parser.add_argument("--no-sync", action="store_true", help="exchange gradients once per step")
    parser.add_argument("--batch", type=int, default=16, help="spectra per micro-batch")
    parser.add_argument("--width", type=int, default=768)
    options = parser.parse_args()

    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29533")
    mp.spawn(run, args=(options,), nprocs=2)


if __name__ == "__main__":
    main()
