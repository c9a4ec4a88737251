"""Neural collaborative filtering on implicit feedback, BPR loss, plain SGD."""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Config:
    users: int = 110_000
    items: int = 40_000
    dim: int = 64
    batch: int = 4096
    steps: int = 180
    lr_emb: float = 2000.0
    lr_mlp: float = 0.1
    seed: int = 0


def interactions(cfg, n=1_000_000):
    """Users and items live on a circle; people click on what is close by."""
    rng = np.random.default_rng(cfg.seed)
    user = rng.integers(0, cfg.users, n)
    place = user / cfg.users + rng.normal(0, 0.03, n)
    item = (np.mod(place, 1.0) * cfg.items).astype(np.int64)
    return torch.from_numpy(user), torch.from_numpy(item)


class NeuMF(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.user = nn.Embedding(cfg.users, cfg.dim, sparse=True)
        self.item = nn.Embedding(cfg.items, cfg.dim, sparse=True)
        nn.init.normal_(self.user.weight, std=0.1)
        nn.init.normal_(self.item.weight, std=0.1)
        self.mlp = nn.Sequential(
            nn.Linear(2 * cfg.dim, 192), nn.ReLU(), nn.Linear(192, 64), nn.ReLU(), nn.Linear(64, 1)
        )

    def forward(self, u, i):
        pu, qi = self.user(u), self.item(i)
        deep = self.mlp(torch.cat([pu, qi], dim=-1)).squeeze(-1)
        return (pu * qi).sum(-1) + deep


class BPRSampler:
    def __init__(self, users, items, n_items, batch, seed):
        self.users, self.items = users, items
        self.n_items, self.batch = n_items, batch
        self.gen = torch.Generator().manual_seed(seed)

    def next(self):
        k = torch.randint(len(self.users), (self.batch,), generator=self.gen)
        neg = torch.randint(self.n_items, (self.batch,), generator=self.gen)
        return self.users[k], self.items[k], neg


def bpr_loss(model, u, pos, neg):
    s = model(torch.cat([u, u]), torch.cat([pos, neg]))
    good, bad = s.chunk(2)
    return -F.logsigmoid(good - bad).mean()


def run(cfg):
    torch.manual_seed(cfg.seed)
    users, items = interactions(cfg)
    sampler = BPRSampler(users, items, cfg.items, cfg.batch, cfg.seed + 1)
    model = NeuMF(cfg)
    tables = list(model.user.parameters()) + list(model.item.parameters())
    opt = torch.optim.SGD(
        [
            {"params": tables, "lr": cfg.lr_emb},
            {"params": model.mlp.parameters(), "lr": cfg.lr_mlp},
        ],
        lr=cfg.lr_mlp,
    )
    history = []
    for step in range(1, cfg.steps + 1):
        opt.zero_grad()
        loss = bpr_loss(model, *sampler.next())
        loss.backward()
        opt.step()
        history.append(loss.item())
        if step % 20 == 0:
            print(f"[{step:4d}/{cfg.steps}] bpr {np.mean(history[-20:]):.5f}")


if __name__ == "__main__":
    run(Config())
