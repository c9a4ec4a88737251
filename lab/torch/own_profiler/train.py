"""Trains a small convolutional network, with a record of some steps by torch.profiler."""

import argparse
import statistics
import tempfile
import time

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule, tensorboard_trace_handler

CLASSES, SIDE = 10, 16


class Block(nn.Module):
    """A residual block of two convolutions."""

    def __init__(self, channels):
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.second = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(channels) for _ in range(2)])

    def forward(self, images):
        hidden = torch.relu(self.norms[0](self.first(images)))
        return torch.relu(images + self.norms[1](self.second(hidden)))


class Network(nn.Module):
    def __init__(self, channels, depth):
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 3, padding=1)
        self.blocks = nn.Sequential(*[Block(channels) for _ in range(depth)])
        self.head = nn.Linear(channels, CLASSES)

    def forward(self, images):
        return self.head(self.blocks(self.stem(images)).mean((2, 3)))


def make_profiler(every, folder):
    """A profiler of eight steps in `every`, with all it can record, or of three steps in all."""
    if every:
        plan = {"wait": every - 9, "warmup": 1, "active": 8}
        options = {"with_stack": True, "record_shapes": True, "profile_memory": True}
    else:
        plan = {"skip_first": 100, "wait": 1, "warmup": 1, "active": 3, "repeat": 1}
        options = {}
    return profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(**plan),
        on_trace_ready=tensorboard_trace_handler(folder),
        **options,
    )


def batches(size, count):
    """Random images with the brightest channel as their label."""
    generator = torch.Generator().manual_seed(0)
    for _ in range(count):
        images = torch.randn(size, 3, SIDE, SIDE, generator=generator)
        yield images, images.mean((2, 3)).argmax(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--channels", type=int, default=16)
    parser.add_argument("--depth", type=int, default=8)
    parser.add_argument("--profile-every", type=int, default=0, metavar="STEPS")
    options = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Network(options.channels, options.depth)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loss_of = nn.CrossEntropyLoss()
    times = []
    with (
        tempfile.TemporaryDirectory() as folder,
        make_profiler(options.profile_every, folder) as profiler,
    ):
        for step, (images, labels) in enumerate(batches(options.batch, options.steps)):
            begin = time.perf_counter()
            optimizer.zero_grad()
            loss = loss_of(model(images), labels)
            loss.backward()
            optimizer.step()
            profiler.step()
            times.append(time.perf_counter() - begin)
            if step % 100 == 99:
                print(f"step {step + 1}  loss {loss.item():.3f}", flush=True)
    print(f"step: median {1e3 * statistics.median(times):.1f} ms, mean "
          f"{1e3 * statistics.mean(times):.1f} ms")  # fmt: skip


if __name__ == "__main__":
    main()
