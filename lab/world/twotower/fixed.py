"""Two-tower retrieval model with in-batch negatives (implicit feedback, simulated sessions)."""

import argparse
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

ap = argparse.ArgumentParser()
ap.add_argument("--users", type=int, default=4000)
ap.add_argument("--items", type=int, default=150000)
ap.add_argument("--dim", type=int, default=32)
ap.add_argument("--hist", type=int, default=10)
ap.add_argument("--bs", type=int, default=256)
ap.add_argument("--steps", type=int, default=700)
ap.add_argument("--lr", type=float, default=0.5)
args = ap.parse_args()
torch.manual_seed(17)
torch.set_num_threads(1)


class Sessions:
    """users like a few genres; items belong to one genre; popularity is skewed"""

    def __init__(self, n_genre=50):
        r = self.rng = np.random.default_rng(17)
        order = r.permutation(args.items)
        self.by_genre = np.array_split(order, n_genre)
        self.taste = r.integers(0, n_genre, (args.users, 3))

    def draw(self, users, k):
        g = self.taste[users[:, None], self.rng.integers(0, 3, (len(users), k))]
        pos = (self.rng.random(g.shape) ** 3 * (args.items // 50)).astype(np.int64)
        return np.array([[self.by_genre[a][b] for a, b in zip(ga, pa)] for ga, pa in zip(g, pos)])

    def batch(self, bs):
        u = self.rng.integers(0, args.users, bs)
        it = self.draw(u, args.hist + 1)
        return torch.from_numpy(u), torch.from_numpy(it[:, 1:]), torch.from_numpy(it[:, 0])


class TwoTower(nn.Module):
    def __init__(self):
        super().__init__()
        d = args.dim
        self.item_emb = nn.Embedding(args.items, d, sparse=True)
        self.user_emb = nn.Embedding(args.users, d)
        self.user_mlp = nn.Sequential(nn.Linear(2 * d, 128), nn.ReLU(), nn.Linear(128, d))
        self.item_mlp = nn.Sequential(nn.Linear(d, 128), nn.ReLU(), nn.Linear(128, d))

    def user(self, u, hist):
        return F.normalize(
            self.user_mlp(torch.cat([self.user_emb(u), self.item_emb(hist).mean(1)], 1)), dim=1
        )

    def item(self, i):
        return F.normalize(self.item_mlp(self.item_emb(i)), dim=1)


@torch.no_grad()
def recall(model, data, k=20, n=500):
    u, h, target = data.batch(n)
    cand = torch.cat([target, torch.randint(0, args.items, (2000,))])
    scores = model.user(u, h) @ model.item(cand).T
    top = scores.topk(k, 1).indices
    return (top == torch.arange(n)[:, None]).any(1).float().mean().item()


data = Sessions()
valid = Sessions()
model = TwoTower()
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
labels = torch.arange(args.bs)
tic, seen = time.time(), 0.0
for step in range(1, args.steps + 1):
    user, hist, pos = data.batch(args.bs)
    logits = model.user(user, hist) @ model.item(pos).T / 0.1
    loss = F.cross_entropy(logits, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    seen += loss.item()
    if step % 100 == 0:
        print(
            "step %4d  loss %.6f  %.2f ms/step"
            % (step, seen / 100, (time.time() - tic) / step * 1000),
            flush=True,
        )
        seen = 0.0
    if step % 350 == 0:
        print("   recall@20 %.3f" % recall(model, valid))
