"""A recurrent tagger of sequences, its data and its training loop."""

import statistics
import time

import torch
from torch import nn

SYMBOLS = 64
TAGS = 8


def batches(batch, length, steps):
    """Random symbols; the tag of each depends on those before it."""
    random = torch.Generator().manual_seed(0)
    for _ in range(steps):
        symbols = torch.randint(0, SYMBOLS, [batch, length], generator=random)
        yield symbols, symbols.cumsum(1) % TAGS


class Tagger(nn.Module):
    """Embeds symbols, passes them through a recurrent layer, and tags each.

    Args:
        recurrent: Layer of `width` features in and out, over [batch, time, features].
        width: Features.
    """

    def __init__(self, recurrent, width):
        super().__init__()
        self.embedding = nn.Embedding(SYMBOLS, width)
        self.recurrent = recurrent
        self.output = nn.Linear(width, TAGS)

    def forward(self, symbols):
        return self.output(self.recurrent(self.embedding(symbols)))


def train(recurrent, options):
    """Train, and print the median step.

    Args:
        recurrent: As in `Tagger`.
        options: Command line with `width`, `batch`, `length` and `steps`.
    """
    torch.set_num_threads(1)
    model = Tagger(recurrent, options.width)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    times = []
    for step, (symbols, tags) in enumerate(batches(options.batch, options.length, options.steps)):
        start = time.perf_counter()
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(symbols).flatten(0, 1), tags.flatten())
        loss.backward()
        optimizer.step()
        times.append(time.perf_counter() - start)
        if step % 20 == 0:
            print(f"step {step:3d}  loss {loss.item():.3f}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:] or times):.1f} ms")
