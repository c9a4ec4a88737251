"""A small network that learns how far each pixel is from the nearest object, and its data."""

import statistics
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader

IMAGES = 48
BATCH = 8


def load(side):
    """Images with a few round objects each, and the masks of these objects.

    Args:
        side: Height and width in pixels.
    """
    random = np.random.default_rng(0)
    y, x = np.mgrid[:side, :side]
    masks = np.zeros([IMAGES, side, side], np.uint8)
    for mask in masks:
        for _ in range(4):
            row, column = random.integers(0, side, 2)
            radius = random.integers(side // 16, side // 6)
            mask[(y - row) ** 2 + (x - column) ** 2 < radius**2] = 1
    noise = random.integers(0, 64, [IMAGES, 3, side, side])
    return (noise + 160 * masks[:, None]).astype(np.uint8), masks


def distance_map(mask):
    """How far each pixel is from the nearest pixel of an object, as it is often written."""
    rows, columns = np.nonzero(mask)
    distances = np.zeros(mask.shape, np.float32)
    for y in range(mask.shape[0]):
        for x in range(mask.shape[1]):
            distances[y, x] = np.sqrt(((rows - y) ** 2 + (columns - x) ** 2).min())
    return distances


def train(dataset, steps, workers):
    """Train, and say on how many images a second.

    Args:
        dataset: Gives images and their distance maps.
        steps: How many.
        workers: Processes of the loader.
    """
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 1, 3, padding=1),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    loader = DataLoader(
        dataset,
        BATCH,
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        persistent_workers=workers > 0,
    )
    times, step, start = [], 0, time.perf_counter()
    while step < steps:
        for images, distances in loader:
            optimizer.zero_grad()
            output = model(images.float() / 255)[:, 0]
            loss = nn.functional.mse_loss(output, distances)
            loss.backward()
            optimizer.step()
            times.append(time.perf_counter() - start)
            start = time.perf_counter()
            if step % 10 == 0:
                print(f"step {step:3d}  loss {loss.item():.1f}", flush=True)
            step += 1
            if step == steps:
                break
    print(f"{BATCH / statistics.median(times[5:] or times):.1f} images/s")
