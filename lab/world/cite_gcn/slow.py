"""Semi-supervised node classification on a synthetic citation graph with a GCN."""
import os
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

STEPS = int(os.environ.get("STEPS", "400"))
NUM_NODES = 2400
NUM_FEATURES = 500
NUM_CLASSES = 7
AVG_DEGREE = 8


def make_citation_graph(seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, NUM_CLASSES, NUM_NODES)
    by_class = [np.flatnonzero(labels == c) for c in range(NUM_CLASSES)]
    src = rng.integers(0, NUM_NODES, NUM_NODES * AVG_DEGREE // 2)
    same = rng.random(len(src)) < 0.7
    dst = rng.integers(0, NUM_NODES, len(src))
    dst[same] = [rng.choice(by_class[labels[s]]) for s in src[same]]
    keep = src != dst
    edges = np.stack([src[keep], dst[keep]])
    topics = rng.random((NUM_CLASSES, NUM_FEATURES)) < 0.05
    words = rng.random((NUM_NODES, NUM_FEATURES)) < (0.01 + 0.08 * topics[labels])
    feats = words.astype(np.float32)
    feats /= np.maximum(feats.sum(1, keepdims=True), 1.0)
    return edges, feats, labels


def normalized_adjacency(edges, n):
    loops = np.stack([np.arange(n), np.arange(n)])
    both = np.unique(np.concatenate([edges, edges[::-1], loops], axis=1), axis=1)
    index = torch.from_numpy(both)
    deg = torch.bincount(index[0], minlength=n).float()
    weight = deg[index[0]].rsqrt() * deg[index[1]].rsqrt()
    adj = torch.zeros(n, n)
    adj[index[0], index[1]] = weight
    return adj


class GraphConv(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.lin = nn.Linear(d_in, d_out)

    def forward(self, x, adj):
        return torch.mm(adj, self.lin(x))


class GCN(nn.Module):
    def __init__(self, d_in, hidden, n_classes):
        super().__init__()
        self.conv1 = GraphConv(d_in, hidden)
        self.conv2 = GraphConv(hidden, hidden)
        self.out = GraphConv(hidden, n_classes)

    def forward(self, x, adj):
        x = F.dropout(x, 0.3, self.training)
        x = F.relu(self.conv1(x, adj))
        x = F.dropout(x, 0.5, self.training)
        x = F.relu(self.conv2(x, adj))
        return self.out(x, adj)


@torch.no_grad()
def evaluate(model, x, adj, y, mask):
    model.eval()
    pred = model(x, adj).argmax(1)
    model.train()
    return (pred[mask] == y[mask]).float().mean().item()


def main():
    torch.manual_seed(0)
    edges, feats, labels = make_citation_graph()
    x = torch.from_numpy(feats)
    y = torch.from_numpy(labels)
    adj = normalized_adjacency(edges, NUM_NODES)

    perm = torch.randperm(NUM_NODES)
    train_idx, val_idx, test_idx = perm[:400], perm[400:900], perm[900:]

    model = GCN(NUM_FEATURES, 64, NUM_CLASSES)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=5e-4)

    start = time.perf_counter()
    for step in range(STEPS):
        if step == 20:
            start = time.perf_counter()
        optimizer.zero_grad()
        logits = model(x, adj)
        loss = F.cross_entropy(logits[train_idx], y[train_idx])
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            acc = evaluate(model, x, adj, y, val_idx)
            print(f"step {step:4d}  loss {loss.item():.4f}  val acc {acc:.3f}", flush=True)

    elapsed = time.perf_counter() - start
    print(f"final loss {loss.item():.4f}  test acc {evaluate(model, x, adj, y, test_idx):.3f}")
    print(f"{1000 * elapsed / max(STEPS - 20, 1):.2f} ms/step")


if __name__ == "__main__":
    main()
