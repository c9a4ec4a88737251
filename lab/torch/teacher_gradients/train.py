"""Trains a small network to give the same answers as a large one."""

import argparse
import contextlib
import statistics
import time
from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional

CLASSES, INPUTS = 20, 64


def network(width, depth):
    """A classifier with some hidden layers of one width."""
    sizes = [INPUTS, *[width] * depth]
    hidden = [nn.Sequential(nn.Linear(a, b), nn.ReLU()) for a, b in pairwise(sizes)]
    return nn.Sequential(*hidden, nn.Linear(width, CLASSES))


def train(options):
    torch.manual_seed(4)
    teacher, student = network(options.width, 4), network(options.width // 2, 2)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.2, momentum=0.9)
    times = []
    for step in range(options.steps):
        start = time.perf_counter()
        batch = torch.randn(options.batch, INPUTS)
        with contextlib.nullcontext() if options.gradients else torch.no_grad():
            target = functional.softmax(8 * teacher(batch), dim=1)
        guess = functional.log_softmax(student(batch), dim=1)
        loss = functional.kl_div(guess, target, reduction="batchmean")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(time.perf_counter() - start)
        if (step + 1) % 40 == 0:
            print(f"step {step + 1:3d}  loss {loss.item():.4f}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:]):.1f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gradients", action="store_true", help="run the teacher with gradients")
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--width", type=int, default=512)
    train(parser.parse_args())


if __name__ == "__main__":
    main()
