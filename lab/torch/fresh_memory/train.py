"""Trains a small image classifier on large batches.

Each activation is a block of tens of megabytes. The C library gives such blocks back to the kernel
when they are freed, unless it is told to keep them.
"""

import argparse
import ctypes
import statistics
import time

import torch
from torch import nn

BATCH = 64
CHANNELS = 16
LAYERS = 2
CLASSES = 10

# Source: `malloc.h` of glibc.
M_TRIM_THRESHOLD = -1
M_MMAP_MAX = -4


def keep_memory():
    libc = ctypes.CDLL("libc.so.6")
    libc.mallopt(M_MMAP_MAX, 0)  # large blocks lie in the heap, too
    libc.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)  # and the heap stays


def build():
    layers, before = [], 3
    for _ in range(LAYERS):
        convolution = nn.Conv2d(before, CHANNELS, 3, padding=1, bias=False)
        layers += [convolution, nn.BatchNorm2d(CHANNELS), nn.ReLU()]
        before = CHANNELS
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, CLASSES)]
    return nn.Sequential(*layers, *head)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep-memory", action="store_true")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--size", type=int, default=96, help="height and width of an image")
    args = parser.parse_args()

    if args.keep_memory:
        keep_memory()
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
