"""Trains a small image classifier.

Batch normalisation is the library's.
"""

import argparse
import statistics
import time

import torch
from torch import nn

BATCH = 32
LAYERS = [(32, 1), (32, 1), (32, 1), (64, 2)]  # channels and stride
CLASSES = 10


def build():
    layers, before = [], 3
    for channels, stride in LAYERS:
        convolution = nn.Conv2d(before, channels, 3, stride, padding=1, bias=False)
        layers += [convolution, nn.BatchNorm2d(channels), nn.ReLU()]
        before = channels
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, CLASSES)]
    return nn.Sequential(*layers, *head)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--size", type=int, default=32, help="height and width of an image")
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(1)  # steadier on two cores that others use as well
    model = build()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    images = torch.rand(BATCH, 3, args.size, args.size)
    labels = torch.randint(CLASSES, (BATCH,))
    times = []
    for step in range(args.steps):
        start = time.perf_counter()
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        times.append(time.perf_counter() - start)
        if step % 10 == 0:
            print(f"step {step:3d}  loss {loss.item():.3f}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:] or times):.1f} ms")


if __name__ == "__main__":
    main()
