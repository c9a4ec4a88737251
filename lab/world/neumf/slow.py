"""Neural matrix factorisation for implicit feedback, BPR loss."""
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

N_USERS = 30000
N_ITEMS = 15000
DIM = 32
BATCH = 1024
LR = 1e-3
STEPS = 3000
LOG_EVERY = 50


class Interactions:
    """Users like items of a similar 'genre'; popularity follows a power law."""

    def __init__(self, seed=0, n=400000):
        rng = np.random.default_rng(seed)
        self.users = rng.integers(0, N_USERS, n)
        popular = (N_ITEMS * rng.random(n) ** 2).astype(np.int64)
        self.items = (popular // 10) * 10 + self.users % 10
        self.items = np.minimum(self.items, N_ITEMS - 1)
        self.users = torch.from_numpy(self.users)
        self.items = torch.from_numpy(self.items)

    def batch(self):
        idx = torch.randint(0, len(self.users), (BATCH,))
        return self.users[idx], self.items[idx], torch.randint(0, N_ITEMS, (BATCH,))


class NeuMF(nn.Module):
    def __init__(self):
        super().__init__()
        self.user = nn.Embedding(N_USERS, DIM)
        self.item = nn.Embedding(N_ITEMS, DIM)
        nn.init.normal_(self.user.weight, std=0.05)
        nn.init.normal_(self.item.weight, std=0.05)
        self.mlp = nn.Sequential(
            nn.Linear(2 * DIM, 192), nn.ReLU(), nn.Linear(192, 64), nn.ReLU(), nn.Linear(64, 1)
        )

    def forward(self, u, i):
        pu, qi = self.user(u), self.item(i)
        return (pu * qi).sum(1) + self.mlp(torch.cat([pu, qi], dim=1)).squeeze(1)


def main():
    torch.manual_seed(0)
    data = Interactions()
    model = NeuMF()
    optimizers = [torch.optim.Adam(model.parameters(), lr=LR)]

    start, total = time.time(), 0.0
    for step in range(1, STEPS + 1):
        u, pos, neg = data.batch()
        scores = model(torch.cat([u, u]), torch.cat([pos, neg]))
        loss = -F.logsigmoid(scores[:BATCH] - scores[BATCH:]).mean()
        for opt in optimizers:
            opt.zero_grad()
        loss.backward()
        for opt in optimizers:
            opt.step()
        total += loss.detach()
        if step % LOG_EVERY == 0:
            print(f"step {step} bpr {total.item() / LOG_EVERY:.4f} [{time.time() - start:.1f}s]", flush=True)
            total = 0.0


if __name__ == "__main__":
    main()
