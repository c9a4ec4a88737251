"""Node classification on a synthetic citation graph with a two layer mean-aggregation GNN."""
import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--nodes", type=int, default=4000)
    p.add_argument("--avg-degree", type=int, default=9)
    p.add_argument("--feat-dim", type=int, default=160)
    p.add_argument("--hidden", type=int, default=96)
    p.add_argument("--classes", type=int, default=7)
    p.add_argument("--epochs", type=int, default=200)
    p.add_argument("--lr", type=float, default=5e-3)
    p.add_argument("--weight-decay", type=float, default=5e-4)
    p.add_argument("--seed", type=int, default=7)
    return p.parse_args()


def make_graph(args):
    g = torch.Generator().manual_seed(args.seed)
    y = torch.randint(0, args.classes, (args.nodes,), generator=g)
    centers = torch.randn(args.classes, args.feat_dim, generator=g)
    x = 0.1 * centers[y] + torch.randn(args.nodes, args.feat_dim, generator=g)
    n_edges = args.nodes * args.avg_degree
    src = torch.randint(0, args.nodes, (n_edges,), generator=g)
    # most citations stay inside a class
    order = torch.argsort(y, stable=True)
    rank = torch.empty_like(order)
    rank[order] = torch.arange(args.nodes)
    shift = torch.randint(-120, 121, (n_edges,), generator=g)
    near = order[(rank[src] + shift).clamp(0, args.nodes - 1)]
    far = torch.randint(0, args.nodes, (n_edges,), generator=g)
    keep = torch.rand(n_edges, generator=g) < 0.8
    dst = torch.where(keep, near, far)
    loops = torch.arange(args.nodes)
    src, dst = torch.cat([src, loops]), torch.cat([dst, loops])
    deg = torch.bincount(dst, minlength=args.nodes).float()
    weight = 1.0 / deg[dst]
    perm = torch.randperm(args.nodes, generator=g)
    n_train = int(0.6 * args.nodes)
    return x, y, src, dst, weight, perm[:n_train], perm[n_train:]


class MeanConv(nn.Module):
    def __init__(self, in_dim, out_dim):
        super().__init__()
        self.lin_self = nn.Linear(in_dim, out_dim)
        self.lin_neigh = nn.Linear(in_dim, out_dim, bias=False)

    def forward(self, x, src, dst, weight):
        messages = self.lin_neigh(x.index_select(0, src))
        messages = messages * weight.unsqueeze(1)
        agg = x.new_zeros(x.size(0), messages.size(1))
        agg = agg.index_add(0, dst, messages)
        return self.lin_self(x) + agg


class SageNet(nn.Module):
    def __init__(self, in_dim, hidden, classes):
        super().__init__()
        self.conv1 = MeanConv(in_dim, hidden)
        self.conv2 = MeanConv(hidden, hidden)
        self.norm1 = nn.LayerNorm(hidden)
        self.norm2 = nn.LayerNorm(hidden)
        self.out = nn.Linear(hidden, classes)
        self.drop = nn.Dropout(0.3)

    def forward(self, x, src, dst, weight):
        h = self.drop(F.relu(self.norm1(self.conv1(x, src, dst, weight))))
        h = h + F.relu(self.norm2(self.conv2(h, src, dst, weight)))
        return self.out(h)


def main():
    args = get_args()
    torch.manual_seed(args.seed)
    x, y, src, dst, weight, train_idx, val_idx = make_graph(args)
    model = SageNet(args.feat_dim, args.hidden, args.classes)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr, weight_decay=args.weight_decay)
    start = time.time()
    for epoch in range(args.epochs):
        model.train()
        opt.zero_grad()
        logits = model(x, src, dst, weight)
        loss = F.cross_entropy(logits[train_idx], y[train_idx])
        loss.backward()
        opt.step()
        if epoch % 20 == 0 or epoch == args.epochs - 1:
            print(f"epoch {epoch:4d} loss {loss.item():.4f} time {time.time() - start:.1f}s", flush=True)
    model.eval()
    with torch.no_grad():
        pred = model(x, src, dst, weight).argmax(1)
    print(f"val accuracy {(pred[val_idx] == y[val_idx]).float().mean().item():.4f}")


if __name__ == "__main__":
    main()
