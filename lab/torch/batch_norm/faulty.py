"""Trains a small image classifier, and is slower than it should be.

Batch normalisation is a module of its own, written out as its paper has it.
"""

import argparse
import statistics
import time

import torch
from torch import nn

BATCH = 32
LAYERS = [(32, 1), (32, 1), (32, 1), (64, 2)]  # channels and stride
CLASSES = 10


class BatchNorm(nn.Module):
    def __init__(self, channels, momentum=0.1, eps=1e-5):
        super().__init__()
        self.momentum, self.eps = momentum, eps
        shape = (1, channels, 1, 1)
        self.gamma = nn.Parameter(torch.ones(shape))
        self.beta = nn.Parameter(torch.zeros(shape))
        self.register_buffer("running_mean", torch.zeros(shape))
        self.register_buffer("running_var", torch.ones(shape))

    def forward(self, x):
        if self.training:
            mean = x.mean(dim=(0, 2, 3), keepdim=True)
            var = ((x - mean) ** 2).mean(dim=(0, 2, 3), keepdim=True)
            with torch.no_grad():
                self.running_mean.mul_(1 - self.momentum).add_(self.momentum * mean)
                self.running_var.mul_(1 - self.momentum).add_(self.momentum * var)
        else:
            mean, var = self.running_mean, self.running_var
        x = (x - mean) / torch.sqrt(var + self.eps)
        return self.gamma * x + self.beta


def build():
    layers, before = [], 3
    for channels, stride in LAYERS:
        convolution = nn.Conv2d(before, channels, 3, stride, padding=1, bias=False)
        layers += [convolution, BatchNorm(channels), nn.ReLU()]
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
