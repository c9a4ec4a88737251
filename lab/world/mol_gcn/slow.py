"""Property regression on small synthetic molecules with a GCN."""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

ATOM_TYPES = 9
BOND_TYPES = 3


def make_molecule(rng):
    n = int(rng.integers(14, 36))
    atoms = rng.choice(ATOM_TYPES, size=n, p=[0.55, 0.12, 0.12, 0.06, 0.05, 0.04, 0.03, 0.02, 0.01])
    bonds = set()
    for i in range(1, n):
        j = int(rng.integers(max(0, i - 4), i))
        bonds.add((j, i))
    for _ in range(int(rng.integers(1, 4))):
        i, j = sorted(rng.choice(n, size=2, replace=False).tolist())
        bonds.add((i, j))
    bonds = np.array(sorted(bonds), dtype=np.int64)
    contrib = np.linspace(-1.0, 1.5, ATOM_TYPES)
    y = contrib[atoms].sum() * 0.4 + 0.3 * (contrib[atoms[bonds[:, 0]]] * contrib[atoms[bonds[:, 1]]]).sum()
    y += rng.normal(0, 0.05)
    return atoms.astype(np.int64), bonds, np.float32(y)


class MoleculeDataset(Dataset):
    def __init__(self, count, seed):
        rng = np.random.default_rng(seed)
        self.items = [make_molecule(rng) for _ in range(count)]
        ys = np.array([m[2] for m in self.items])
        self.mean, self.std = float(ys.mean()), float(ys.std())

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        atoms, bonds, y = self.items[i]
        src = np.concatenate([bonds[:, 0], bonds[:, 1], np.arange(len(atoms))])
        dst = np.concatenate([bonds[:, 1], bonds[:, 0], np.arange(len(atoms))])
        deg = np.bincount(dst, minlength=len(atoms)).astype(np.float32)
        w = 1.0 / np.sqrt(deg[src] * deg[dst])
        return torch.from_numpy(atoms), torch.from_numpy(src), torch.from_numpy(dst), torch.from_numpy(w), (y - self.mean) / self.std


def collate(batch):
    atoms, graph_id, adjs, ys = [], [], [], []
    for g, (a, src, dst, w, y) in enumerate(batch):
        n = a.numel()
        adj = torch.zeros(n, n)
        adj[dst, src] = w
        adjs.append(adj)
        atoms.append(a)
        graph_id.append(torch.full((n,), g, dtype=torch.long))
        ys.append(y)
    adj = torch.block_diag(*adjs)
    return torch.cat(atoms), adj, torch.cat(graph_id), torch.tensor(ys, dtype=torch.float32)


class GCNLayer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.lin = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, h, adj):
        m = adj @ self.lin(h)
        return h + F.relu(self.norm(m))


class GCN(nn.Module):
    def __init__(self, dim=128, depth=4):
        super().__init__()
        self.embed = nn.Embedding(ATOM_TYPES, dim)
        self.layers = nn.ModuleList(GCNLayer(dim) for _ in range(depth))
        self.head = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, 1))

    def forward(self, atoms, adj, graph_id, n_graphs):
        h = self.embed(atoms)
        for layer in self.layers:
            h = layer(h, adj)
        pooled = torch.zeros(n_graphs, h.shape[1]).index_add_(0, graph_id, h)
        return self.head(pooled).squeeze(-1)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=900)
    p.add_argument("--batch-size", type=int, default=64)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--molecules", type=int, default=4000)
    args = p.parse_args()

    torch.manual_seed(0)
    data = MoleculeDataset(args.molecules, seed=1)
    loader = DataLoader(data, batch_size=args.batch_size, shuffle=True, drop_last=True, collate_fn=collate)
    model = GCN()
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-5)

    step, running = 0, 0.0
    start = time.time()
    while step < args.steps:
        for atoms, adj, graph_id, y in loader:
            pred = model(atoms, adj, graph_id, y.numel())
            loss = F.smooth_l1_loss(pred, y)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            running += loss.item()
            step += 1
            if step % 20 == 0:
                print(f"step {step} loss {running / 20:.4f} elapsed {time.time() - start:.2f}s", flush=True)
                running = 0.0
            if step >= args.steps:
                break


if __name__ == "__main__":
    main()
