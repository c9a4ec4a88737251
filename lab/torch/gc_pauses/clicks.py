"""A model of clicks on recommended items, its data, its metric and its training loop."""

import statistics
import time
from collections import deque

import torch
from torch import nn

ITEMS = 2000


def batches(batch, steps):
    """Random items for each user, and which of them were clicked."""
    random = torch.Generator().manual_seed(0)
    for _ in range(steps):
        items = torch.randint(0, ITEMS, [batch, 16], generator=random)
        yield items, (items % 7 == 0).float()


class Model(nn.Module):
    """Scores each item beside the others that are shown."""

    def __init__(self, width=64):
        super().__init__()
        self.embedding = nn.Embedding(ITEMS, width)
        self.hidden = nn.Linear(2 * width, width)
        self.output = nn.Linear(width, 1)

    def forward(self, items):
        each = self.embedding(items)
        others = each.mean(1, keepdim=True).expand_as(each)
        hidden = torch.relu(self.hidden(torch.cat([each, others], dim=2)))
        return self.output(hidden)[:, :, 0]


class RecentClicks:
    """The most recent scores with their labels, of which the precision is computed now and then."""

    def __init__(self, kept=150_000):
        self.recent = deque(maxlen=kept)

    def update(self, scores, labels):
        """Add a batch."""
        self.recent.extend(torch.stack([scores.flatten(), labels.flatten()], dim=1).tolist())

    def precision(self):
        """Share of clicks among the highest scores."""
        best = sorted(self.recent, reverse=True)[: len(self.recent) // 10]
        return sum(label for _, label in best) / max(len(best), 1)


def train(options, after_step):
    """Train, and print the median and the longest step.

    Args:
        options: Command line with `batch` and `steps`.
        after_step: Called with the number of each step.
    """
    torch.set_num_threads(1)
    model, clicks, times = Model(), RecentClicks(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, (items, labels) in enumerate(batches(options.batch, options.steps)):
        start = time.perf_counter()
        optimizer.zero_grad()
        scores = model(items)
        loss = nn.functional.binary_cross_entropy_with_logits(scores, labels)
        loss.backward()
        optimizer.step()
        clicks.update(scores.detach(), labels)
        after_step(step)
        times.append(time.perf_counter() - start)
        if step % 100 == 99:
            print(f"step {step:3d}  precision {clicks.precision():.3f}", flush=True)
    longest = 1000 * max(times[5:] or times)
    print(
        f"median step {1000 * statistics.median(times[5:] or times):.1f} ms, longest {longest:.1f}"
    )
