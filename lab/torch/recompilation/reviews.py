"""A classifier of reviews, and reviews of different lengths."""

import statistics
import time

import torch
from torch import nn

WORDS = 2000
SHORTEST, LONGEST = 20, 120


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, hidden):
        return hidden + self.down(nn.functional.gelu(self.up(self.norm(hidden))))


class Classifier(nn.Module):
    def __init__(self, width=64, blocks=2):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, width, padding_idx=0)
        self.blocks = nn.ModuleList(Block(width) for _ in range(blocks))
        self.output = nn.Linear(width, 2)

    def forward(self, words):
        hidden = self.embedding(words)
        for block in self.blocks:
            hidden = block(hidden)
        known = (words > 0).unsqueeze(-1)
        return self.output((hidden * known).sum(1) / known.sum(1))


def batches(batch, steps):
    """Reviews padded to the longest of each batch, with their labels."""
    random = torch.Generator().manual_seed(0)
    for _ in range(steps):
        lengths = torch.randint(SHORTEST, LONGEST, [batch], generator=random)
        words = torch.randint(1, WORDS, [batch, int(lengths.max())], generator=random)
        words[torch.arange(int(lengths.max())) >= lengths[:, None]] = 0
        yield words, torch.randint(0, 2, [batch], generator=random)


def train(model, batch, steps):
    """Train, and print the median step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    times = []
    for step, (words, labels) in enumerate(batches(batch, steps)):
        start = time.perf_counter()
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(words), labels)
        loss.backward()
        optimizer.step()
        times.append(time.perf_counter() - start)
        if step % 10 == 0:
            print(f"step {step:3d}  loss {loss.item():.3f}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:] or times):.1f} ms")
