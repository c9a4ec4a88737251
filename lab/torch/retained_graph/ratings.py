"""A model that rates items for users, trained on synthetic ratings."""

import torch
from torch import nn


class Ratings(torch.utils.data.IterableDataset):
    """Batches of users, items and their ratings.

    Args:
        batch: Ratings per batch.
        count: Users and items.
    """

    def __init__(self, batch, count=5000):
        self.batch, self.count = batch, count
        generator = torch.Generator().manual_seed(1)
        self.taste = torch.randn(count, 8, generator=generator)

    def __iter__(self):
        generator = torch.Generator().manual_seed(2)
        while True:
            pairs = torch.randint(self.count, (self.batch, 2), generator=generator)
            rating = (self.taste[pairs[:, 0]] * self.taste[pairs[:, 1]]).sum(1)
            yield pairs[:, 0], pairs[:, 1], rating


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
    loader = torch.utils.data.DataLoader(Ratings(options.batch), batch_size=None, num_workers=1)
    for step, (users, items, rating) in zip(range(options.steps), loader, strict=False):
        loss = nn.functional.mse_loss(model(users, items), rating)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running = record(loss, model)
        if step % options.every == options.every - 1:
            print(f"step {step + 1}: mean loss {running / (step + 1):.3f}")
