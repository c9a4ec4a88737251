"""Trains a forecaster of sensor readings on two processes; options add what only one of them does.

The pairs `ddp_...` beside this file run it with and without one of these options.
"""

import argparse
import gc
import itertools
import os
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

SENSORS, HISTORY = 64, 32


class Archive:
    """Readings of all sensors: in memory, or as text that has to be parsed."""

    def __init__(self, rows, rank, *, as_text):
        random = np.random.default_rng(rank)
        self.readings = random.normal(size=(rows, SENSORS)).astype(np.float32)
        self.lines = [",".join(f"{v:.5f}" for v in row) for row in self.readings]
        self.as_text = as_text

    def window(self, start):
        """The readings of one window, and those that follow it."""
        chosen = slice(start, start + HISTORY + 1)
        if self.as_text:
            rows = [[float(value) for value in line.split(",")] for line in self.lines[chosen]]
            window = np.array(rows, dtype=np.float32)
        else:
            window = self.readings[chosen]
        return window[:-1], window[-1]


class GradientStatistics:
    """Percentiles of the gradient of a parameter, whenever it is computed."""

    def __init__(self, parameter):
        self.values = []
        parameter.register_hook(self.add)

    def add(self, gradient):
        ordered = gradient.flatten().sort().values
        self.values.append(ordered[:: len(ordered) // 10].tolist())


class Journal:
    """A log of the loss that survives a power cut."""

    def __init__(self, folder):
        self.file = (folder / "journal.txt").open("w")

    def write(self, number, loss, model):
        for name, parameter in model.named_parameters():
            self.file.write(f"{number} {loss.item():.4f} {name} {parameter.norm().item():.4f}\n")
            self.file.flush()
            os.fsync(self.file.fileno())


class Trainer:
    def __init__(self, options, rank, folder):
        torch.manual_seed(1)
        torch.set_num_threads(1)
        self.options, self.rank, self.folder = options, rank, folder
        width = options.width
        layers = [nn.Flatten(), nn.Linear(SENSORS * HISTORY, width), nn.ReLU()]
        for _ in range(3):
            layers += [nn.Linear(width, width), nn.ReLU()]
        self.network = nn.Sequential(*layers, nn.Linear(width, SENSORS))
        if options.statistics and rank == 0:
            self.statistics = GradientStatistics(self.network[3].weight)
        self.model = DistributedDataParallel(self.network)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.archive = Archive(2000, rank, as_text=options.text and rank == 1)
        self.random = np.random.default_rng(rank)
        self.held_out = torch.randn(1024, HISTORY, SENSORS)
        self.journal = Journal(folder) if options.journal and rank == 0 else None
        self.graph = []

    def batch(self):
        starts = self.random.integers(0, 2000 - HISTORY - 1, self.options.batch)
        windows, following = zip(*map(self.archive.window, starts), strict=True)
        return torch.from_numpy(np.stack(windows)), torch.from_numpy(np.stack(following))

    def validate(self):
        with torch.no_grad():
            return [self.network(self.held_out).square().mean().item() for _ in range(8)]

    def share_metrics(self, loss):
        """The mean of each metric over both processes, one by one."""
        metrics = [loss.detach(), *(p.detach().norm() for p in self.network.parameters())]
        for metric in metrics * self.options.metrics:
            dist.all_reduce(metric.clone())

    def collect(self):
        """Builds the neighbourhood of each sensor anew, and frees the last one."""
        nodes = [{"number": n, "near": []} for n in range(500)]
        for node, following in itertools.pairwise(nodes):
            node["near"].append(following)
            following["near"].append(node)
        self.graph = nodes
        gc.collect()

    def step(self, number):
        readings, following = self.batch()
        loss = nn.functional.mse_loss(self.model(readings), following)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.beside(number, loss)
        return loss

    def beside(self, number, loss):
        """What is not training."""
        options, is_first = self.options, self.rank == 0
        self.share_metrics(loss)
        if self.journal:
            self.journal.write(number, loss, self.network)
        if options.collect and not is_first:
            self.collect()
        if is_first and number % options.save_every == options.save_every - 1:
            state = [self.model.state_dict(), self.held_out]
            torch.save(state, self.folder / f"checkpoint-{number}.pt")
        if is_first and number % options.validate_every == options.validate_every - 1:
            self.validate()

    def train(self):
        times = []
        for number in range(self.options.steps):
            start = time.perf_counter()
            loss = self.step(number)
            times.append(time.perf_counter() - start)
            if self.rank == 0 and number % 50 == 0:
                print(f"step {number:3d}  loss {loss.item():.3f}", flush=True)
        if self.rank == 0:
            print(f"mean step {1000 * statistics.mean(times):.1f} ms")


def run(rank, options, folder):
    dist.init_process_group("gloo", rank=rank, world_size=2)
    Trainer(options, rank, Path(folder)).train()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--statistics", action="store_true", help="of gradients, in the first")
    parser.add_argument("--text", action="store_true", help="the second reads text")
    parser.add_argument("--journal", action="store_true", help="the first writes one")
    parser.add_argument("--collect", action="store_true", help="the second collects garbage")
    parser.add_argument("--metrics", type=int, default=0, help="how often each is shared per step")
    parser.add_argument("--save-every", type=int, default=1000, help="steps; the first saves")
    parser.add_argument("--validate-every", type=int, default=1000, help="steps; only the first")
    options = parser.parse_args()

    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29533")
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(run, args=(options, folder), nprocs=2)


if __name__ == "__main__":
    main()
