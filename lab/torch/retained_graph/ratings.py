"""A model that rates items for users, trained on synthetic ratings."""

import torch
from torch import nn


class Ratings:
    """Ratings of items by users, which are made once and drawn from in batches.

    Args:
        batch: Ratings per batch.
        count: Users and items.
        stored: Ratings in all.
    """

    def __init__(self, batch, count=5000, stored=200_000):
        generator = torch.Generator().manual_seed(1)
        taste = torch.randn(count, 8, generator=generator)
        pairs = torch.randint(count, (stored, 2), generator=generator)
        self.users, self.items = pairs.unbind(1)
        self.rating = (taste[self.users] * taste[self.items]).sum(1)
        self.batch = batch

    def draw(self, step):
        """Users, items and ratings of one step."""
        start = step * self.batch % (len(self.rating) - self.batch)
        rows = slice(start, start + self.batch)
        return self.users[rows], self.items[rows], self.rating[rows]


class Recommender(nn.Module):
    """Two embeddings and a small network on top."""

    def __init__(self, count=5000, width=128):
        super().__init__()
        self.users = nn.Embedding(count, width)
        self.items = nn.Embedding(count, width)
        self.head = nn.Sequential(nn.Linear(2 * width, 256), nn.ReLU(), nn.Linear(256, 1))

    def forward(self, users, items):
        """Predicted ratings; (batch,)."""
        both = torch.cat([self.users(users), self.items(items)], dim=1)
        return self.head(both).squeeze(1)


def train(options, record):
    """Train for some steps.

    Args:
        options: `steps`, `batch` and `every`.
        record: Called with the loss of each step; returns the running sum.
    """
    torch.manual_seed(0)
    model = Recommender()
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.02)
    ratings = Ratings(options.batch)
    for step in range(options.steps):
        users, items, rating = ratings.draw(step)
        loss = nn.functional.mse_loss(model(users, items), rating)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running = record(loss, model)
        if step % options.every == options.every - 1:
            print(f"step {step + 1}: mean loss {running / (step + 1):.3f}")
