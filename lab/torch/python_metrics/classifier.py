"""A small classifier of pixels, its data and its training loop."""

import statistics
import time

import torch
from torch import nn

CLASSES = 5
SIDE = 24


def batches(batch, steps):
    """Random images with a class for each pixel."""
    random = torch.Generator().manual_seed(0)
    for _ in range(steps):
        images = torch.rand([batch, 3, SIDE, SIDE], generator=random)
        yield images, (images.mean(1) * CLASSES).long()


def model_of(channels=16):
    """Three convolutions."""
    return nn.Sequential(
        nn.Conv2d(3, channels, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(channels, channels, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(channels, CLASSES, 1),
    )


def train(metrics, batch, steps):
    """Train, and print the accuracy and the median step.

    Args:
        metrics: Has `update(guesses, labels)` and `accuracy()`.
        batch: Images in a batch.
        steps: How many.
    """
    torch.set_num_threads(1)
    model = model_of()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    times = []
    for step, (images, labels) in enumerate(batches(batch, steps)):
        start = time.perf_counter()
        optimizer.zero_grad()
        logits = model(images)
        loss = nn.functional.cross_entropy(logits, labels)
        loss.backward()
        optimizer.step()
        metrics.update(logits.argmax(1), labels)
        times.append(time.perf_counter() - start)
        if step % 20 == 0:
            print(f"step {step:3d}  accuracy {metrics.accuracy():.3f}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:] or times):.1f} ms")
