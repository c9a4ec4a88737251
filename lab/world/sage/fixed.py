# GraphSAGE node classification with neighbour sampling, no PyG available on the cluster so DIY
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

NODES, CLASSES, FEATS = 12000, 8, 64
EDGES = 150000
BATCH, FANOUT = 32, (4, 6)
STEPS = 1200

torch.manual_seed(0)
torch.set_num_threads(1)


def sbm(seed=0):
    """stochastic block model-like graph: 80% of edges inside the class"""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, CLASSES, NODES)
    members = [np.flatnonzero(label == c) for c in range(CLASSES)]
    src = rng.integers(0, NODES, EDGES)
    dst = rng.integers(0, NODES, EDGES)
    inside = rng.random(EDGES) < 0.8
    for c in range(CLASSES):
        m = inside & (label[src] == c)
        dst[m] = rng.choice(members[c], m.sum())
    x = rng.standard_normal((NODES, FEATS)).astype(np.float32)
    x[np.arange(NODES), label] += 0.7
    return np.stack([src, dst]), x, label


class NeighborSampler:
    def __init__(self, edge_index, seed=1):
        order = np.argsort(edge_index[0], kind="stable")
        self.dst = edge_index[1][order]
        self.indptr = np.searchsorted(edge_index[0][order], np.arange(NODES + 1))
        self.rng = np.random.default_rng(seed)

    def neighbors(self, node):
        return self.dst[self.indptr[node] : self.indptr[node + 1]]

    def sample(self, nodes, k):
        out = np.empty((len(nodes), k), np.int64)
        for i, n in enumerate(nodes):
            nb = self.neighbors(n)
            if len(nb) == 0:
                out[i] = n
            else:
                out[i] = nb[self.rng.integers(0, len(nb), k)]
        return out

    def blocks(self, seeds):
        hop1 = self.sample(seeds, FANOUT[0])
        hop2 = self.sample(hop1.ravel(), FANOUT[1])
        return hop1, hop2


class SAGEConv(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.self_lin, self.nb_lin = nn.Linear(i, o), nn.Linear(i, o, bias=False)

    def forward(self, h, nb):
        return self.self_lin(h) + self.nb_lin(nb.mean(-2))


class SAGE(nn.Module):
    def __init__(self, hidden=192):
        super().__init__()
        self.c1, self.c2 = SAGEConv(FEATS, hidden), SAGEConv(hidden, hidden)
        self.out = nn.Linear(hidden, CLASSES)

    def forward(self, x, seeds, hop1, hop2):
        x1 = x[hop1]
        h1 = F.relu(self.c1(x1, x[hop2].view(*hop1.shape, FANOUT[1], -1)))
        h0 = F.relu(self.c1(x[seeds], x1))
        return self.out(F.relu(self.c2(h0, h1)))


edge_index, x_np, y_np = sbm()
x, y = torch.from_numpy(x_np), torch.from_numpy(y_np)
perm = np.random.default_rng(5).permutation(NODES)
train_nodes, test_nodes = perm[:9000], perm[9000:]
sampler = NeighborSampler(edge_index)
model = SAGE()
opt = torch.optim.Adam(model.parameters(), lr=3e-3)
rng = np.random.default_rng(9)

t0 = time.time()
for it in range(1, STEPS + 1):
    seeds = rng.choice(train_nodes, BATCH, replace=False)
    hop1, hop2 = sampler.blocks(seeds)
    logits = model(x, torch.from_numpy(seeds), torch.from_numpy(hop1), torch.from_numpy(hop2))
    loss = F.cross_entropy(logits, y[seeds])
    opt.zero_grad()
    loss.backward()
    opt.step()
    if it % 100 == 0:
        print(
            f"iter {it} loss {loss.item():.6f} ({(time.time() - t0) / it * 1000:.2f} ms/iter)",
            flush=True,
        )
    if it % 400 == 0:
        with torch.no_grad():
            s = test_nodes[:128]
            h1, h2 = sampler.blocks(s)
            acc = (
                model(x, torch.from_numpy(s), torch.from_numpy(h1), torch.from_numpy(h2)).argmax(1)
                == y[s]
            )
        print(f"   test acc {acc.float().mean().item():.3f}")
