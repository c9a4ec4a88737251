"""A model of ratings, its data and its training loop."""

import statistics
import time

import torch
from torch import nn

USERS, FILMS = 2000, 3000


def batches(batch, steps):
    """Random users and films, and a rating of each pair."""
    random = torch.Generator().manual_seed(0)
    for _ in range(steps):
        users = torch.randint(0, USERS, [batch], generator=random)
        films = torch.randint(0, FILMS, [batch], generator=random)
        yield users, films, ((users + films) % 5).float()


class Model(nn.Module):
    """Embeds users and films, and passes both through some layers."""

    def __init__(self, width=64):
        super().__init__()
        self.users = nn.Embedding(USERS, width)
        self.films = nn.Embedding(FILMS, width)
        self.layers = nn.Sequential(
            nn.Linear(2 * width, 2 * width),
            nn.ReLU(),
            nn.Linear(2 * width, width),
            nn.ReLU(),
            nn.Linear(width, 1),
        )

    def forward(self, users, films):
        both = torch.cat([self.users(users), self.films(films)], dim=1)
        return self.layers(both)[:, 0]


def train(log, options):
    """Train, and print the median step.

    Args:
        log: Called with the number of the step, the model and the loss.
        options: Command line with `batch` and `steps`.
    """
    torch.set_num_threads(1)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    times = []
    for step, (users, films, ratings) in enumerate(batches(options.batch, options.steps)):
        start = time.perf_counter()
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(users, films), ratings)
        loss.backward()
        optimizer.step()
        log(step, model, loss)
        times.append(time.perf_counter() - start)
        if step % 20 == 0:
            print(f"step {step:3d}  loss {loss.item():.3f}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:] or times):.1f} ms")
