"""A deep bidirectional tagger of sequences with many small parameters, its data and its loop."""

import statistics
import time

import torch
from torch import nn

SYMBOLS = 64
TAGS = 8


def batches(batch, length, steps):
    """Random symbols; the tag of each depends on those beside it."""
    random = torch.Generator().manual_seed(0)
    for _ in range(steps):
        symbols = torch.randint(0, SYMBOLS, [batch, length], generator=random)
        yield symbols, (symbols + symbols.roll(1, dims=1)) % TAGS


class Tagger(nn.Module):
    """Embeds symbols, passes them through recurrent layers in both directions, and tags each."""

    def __init__(self, width, layers):
        super().__init__()
        self.embedding = nn.Embedding(SYMBOLS, width)
        self.recurrent = nn.LSTM(width, width, layers, batch_first=True, bidirectional=True)
        self.output = nn.Linear(2 * width, TAGS)

    def forward(self, symbols):
        return self.output(self.recurrent(self.embedding(symbols))[0])


def train(optimizer_of, options):
    """Train, and print the median step.

    Args:
        optimizer_of: Makes an optimizer of parameters and a rate.
        options: Command line with `width`, `layers`, `length`, `batch`, `rate` and `steps`.
    """
    torch.set_num_threads(1)
    model = Tagger(options.width, options.layers)
    optimizer = optimizer_of(model.parameters(), options.rate)
    times = []
    for step, (symbols, tags) in enumerate(batches(options.batch, options.length, options.steps)):
        start = time.perf_counter()
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(symbols).flatten(0, 1), tags.flatten())
        loss.backward()
        optimizer.step()
        times.append(time.perf_counter() - start)
        if step % 20 == 0:
            print(f"step {step:3d}  loss {loss.item():.4f}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:] or times):.1f} ms")
