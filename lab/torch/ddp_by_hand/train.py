"""Trains a small transformer on two processes, with gradients averaged by hand."""

import argparse
import os
import statistics
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

SYMBOLS = 128


class Model(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.embedding = nn.Embedding(SYMBOLS, width)
        layer = nn.TransformerEncoderLayer(width, 2, 2 * width, batch_first=True, dropout=0.0)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.output = nn.Linear(width, SYMBOLS)

    def forward(self, symbols):
        return self.output(self.encoder(self.embedding(symbols)))


def average_each(parameters):
    """Average the gradients of all processes."""
    for parameter in parameters:
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


def average_together(parameters):
    """Average the gradients of all processes with one exchange."""
    gradients = [parameter.grad for parameter in parameters]
    flat = nn.utils.parameters_to_vector(gradients)
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    nn.utils.vector_to_parameters(flat, gradients)


class Trainer:
    def __init__(self, options, rank):
        torch.manual_seed(1)
        torch.set_num_threads(1)
        self.options, self.rank = options, rank
        self.model = Model(options.width, options.layers)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.average = average_together if options.flat else average_each
        self.random = torch.Generator().manual_seed(rank)

    def batch(self):
        size = (self.options.batch, self.options.length + 1)
        symbols = torch.randint(0, SYMBOLS, size, generator=self.random)
        return symbols[:, :-1], symbols[:, 1:]

    def step(self):
        symbols, following = self.batch()
        logits = self.model(symbols)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), following.flatten())
        self.optimizer.zero_grad()
        loss.backward()
        self.average(list(self.model.parameters()))
        self.optimizer.step()
        return loss

    def train(self):
        times = []
        for number in range(self.options.steps):
            start = time.perf_counter()
            loss = self.step()
            times.append(time.perf_counter() - start)
            if self.rank == 0 and number % 30 == 0:
                print(f"step {number:3d}  loss {loss.item():.3f}", flush=True)
        if self.rank == 0:
            print(f"median step {1000 * statistics.median(times):.1f} ms")


def run(rank, options):
    dist.init_process_group("gloo", rank=rank, world_size=2)
    Trainer(options, rank).train()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=90)
    parser.add_argument("--flat", action="store_true", help="exchange all gradients at once")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--length", type=int, default=16)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--layers", type=int, default=8)
    options = parser.parse_args()

    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29534")
    mp.spawn(run, args=(options,), nprocs=2)


if __name__ == "__main__":
    main()
