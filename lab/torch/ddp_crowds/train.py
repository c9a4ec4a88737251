"""Trains on two processes to tell the poses of people in frames of a camera."""

import argparse
import itertools
import os
import statistics
import time

import network
import station
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Subset

RANKS = 2


def share_of(frames, rank, split):
    """The frames of one process."""
    if split == "halves":
        each = len(frames) // RANKS
        return Subset(frames, range(rank * each, (rank + 1) * each))
    return Subset(frames, range(rank, len(frames), RANKS))


class Trainer:
    def __init__(self, options, rank):
        torch.manual_seed(1)  # the same order of frames in both processes
        torch.set_num_threads(1)
        self.options, self.rank = options, rank
        self.model = DistributedDataParallel(network.PoseNetwork(options.width))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3, fused=True)
        frames = share_of(station.Frames(), rank, options.split)
        self.loader = DataLoader(
            frames, options.batch, shuffle=True, drop_last=True, collate_fn=station.collate
        )

    def batches(self):
        """Epoch after epoch."""
        epochs = itertools.chain.from_iterable(self.loader for _ in itertools.count())
        return itertools.islice(epochs, self.options.steps)

    def step(self, batch):
        poses = self.model(batch)
        loss = nn.functional.cross_entropy(poses, batch.poses)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss

    def train(self):
        times, start = [], time.perf_counter()
        for step, batch in enumerate(self.batches()):
            loss = self.step(batch)
            times.append(time.perf_counter() - start)
            start = time.perf_counter()
            if self.rank == 0 and step % 20 == 0:
                print(f"step {step:3d}  loss {loss.item():.3f}", flush=True)
        if self.rank == 0:
            print(f"median step {1000 * statistics.median(times):.1f} ms")


def run(rank, options):
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    Trainer(options, rank).train()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=70)
    parser.add_argument("--split", choices=["halves", "turns"], default="turns")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--width", type=int, default=24)
    options = parser.parse_args()

    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29535")
    mp.spawn(run, args=(options,), nprocs=RANKS)


if __name__ == "__main__":
    main()
