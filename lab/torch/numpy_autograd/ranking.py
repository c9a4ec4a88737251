"""A network that learns to rank items, its data and its training loop."""

import statistics
import time

import torch
from torch import nn

FEATURES = 32


def batches(batch, items, steps):
    """Random items with the score that each should get."""
    random = torch.Generator().manual_seed(0)
    direction = torch.randn([FEATURES], generator=random)
    for _ in range(steps):
        features = torch.randn([batch, items, FEATURES], generator=random)
        yield features, features @ direction


def model_of(hidden=128):
    """Scores each item by itself."""
    return nn.Sequential(
        nn.Linear(FEATURES, hidden),
        nn.GELU(),
        nn.Linear(hidden, hidden),
        nn.GELU(),
        nn.Linear(hidden, 1),
        nn.Flatten(1),
    )


def train(loss_of, batch, items, steps):
    """Train, and print the median step.

    Args:
        loss_of: Function of scores and wanted scores that returns the loss.
        batch: Lists of items in a batch.
        items: Items in a list.
        steps: How many.
    """
    torch.set_num_threads(1)
    model = model_of()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    times = []
    for step, (features, wanted) in enumerate(batches(batch, items, steps)):
        start = time.perf_counter()
        optimizer.zero_grad()
        loss = loss_of(model(features), wanted)
        loss.backward()
        optimizer.step()
        times.append(time.perf_counter() - start)
        if step % 20 == 0:
            print(f"step {step:3d}  loss {loss:.4f}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:] or times):.1f} ms")
