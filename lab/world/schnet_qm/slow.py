"""SchNet-style continuous-filter network fitted to energies of random clusters.

Toy version of our CPU-only baseline (the group has no GPUs on the login nodes).
Energies come from a Morse pair potential, so there is nothing to download.
"""
import math
import time
from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class Config:
    n_atoms: int = 16
    n_molecules: int = 600
    batch_size: int = 20
    hidden: int = 64
    n_interactions: int = 2
    n_gaussians: int = 300
    cutoff: float = 30.0
    gamma: float = 10.0
    lr: float = 1e-3
    epochs: int = 7
    seed: int = 0


class GaussianSmearing(nn.Module):
    """e_k(r) = exp(-gamma (r - mu_k)^2), mu_k every 0.1 A up to the cutoff (eq. 5 of the paper)."""

    def __init__(self, cutoff, n_gaussians, gamma):
        super().__init__()
        self.gamma = gamma
        self.register_buffer("mu", torch.linspace(0.0, cutoff, n_gaussians))

    def forward(self, dist):
        diff = dist[:, None] - self.mu[None, :]
        return torch.exp(-self.gamma * diff ** 2)


class ShiftedSoftplus(nn.Module):
    def forward(self, x):
        return nn.functional.softplus(x) - math.log(2.0)


class CFConv(nn.Module):
    def __init__(self, hidden, n_gaussians):
        super().__init__()
        self.filter_net = nn.Sequential(
            nn.Linear(n_gaussians, hidden), ShiftedSoftplus(), nn.Linear(hidden, hidden), ShiftedSoftplus())
        self.lin_in = nn.Linear(hidden, hidden, bias=False)
        self.lin_out = nn.Sequential(nn.Linear(hidden, hidden), ShiftedSoftplus(), nn.Linear(hidden, hidden))

    def forward(self, x, rbf, src, dst):
        w = self.filter_net(rbf)
        msg = self.lin_in(x)[src] * w
        agg = torch.zeros_like(x).index_add(0, dst, msg)
        return x + self.lin_out(agg)


class SchNet(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.embed = nn.Embedding(10, cfg.hidden)
        self.smear = GaussianSmearing(cfg.cutoff, cfg.n_gaussians, cfg.gamma)
        self.interactions = nn.ModuleList([CFConv(cfg.hidden, cfg.n_gaussians) for _ in range(cfg.n_interactions)])
        self.out = nn.Sequential(nn.Linear(cfg.hidden, cfg.hidden // 2), ShiftedSoftplus(), nn.Linear(cfg.hidden // 2, 1))

    def forward(self, z, pos, src, dst, mol, n_mol):
        dist = (pos[src] - pos[dst]).norm(dim=-1)
        rbf = self.smear(dist)
        x = self.embed(z)
        for block in self.interactions:
            x = block(x, rbf, src, dst)
        e = self.out(x).squeeze(-1)
        return torch.zeros(n_mol).index_add(0, mol, e)


def make_molecules(cfg):
    g = torch.Generator().manual_seed(cfg.seed)
    z = torch.randint(1, 10, (cfg.n_molecules, cfg.n_atoms), generator=g)
    pos = torch.rand(cfg.n_molecules, cfg.n_atoms, 3, generator=g) * 9.0
    d = torch.cdist(pos, pos) + 10 * torch.eye(cfg.n_atoms)
    morse = (1 - torch.exp(-0.8 * (d - 2.5))).clamp(-3, 3) ** 2 - 1
    energy = 0.5 * morse.mul(z[:, :, None] * z[:, None, :] / 50.0).sum((1, 2))
    return z, pos, (energy - energy.mean()) / energy.std()


def full_edges(n_atoms, n_mol):
    """All ordered pairs inside every molecule, and the molecule of every atom."""
    pair = (~torch.eye(n_atoms, dtype=torch.bool)).nonzero()
    offset = torch.arange(n_mol)[:, None] * n_atoms
    src = (pair[:, 0][None] + offset).reshape(-1)
    dst = (pair[:, 1][None] + offset).reshape(-1)
    return src, dst, torch.arange(n_mol).repeat_interleave(n_atoms)


def train(cfg):
    torch.manual_seed(cfg.seed)
    z, pos, energy = make_molecules(cfg)
    model = SchNet(cfg)
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    src, dst, mol = full_edges(cfg.n_atoms, cfg.batch_size)
    step, start = 0, time.time()
    for epoch in range(cfg.epochs):
        perm = torch.randperm(cfg.n_molecules)
        for b in range(0, cfg.n_molecules, cfg.batch_size):
            idx = perm[b:b + cfg.batch_size]
            pred = model(z[idx].reshape(-1), pos[idx].reshape(-1, 3), src, dst, mol, cfg.batch_size)
            loss = nn.functional.mse_loss(pred, energy[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            step += 1
            if step % 3 == 0:
                print(f"[{epoch}] step {step:4d}  mse {loss.item():.5f}  {time.time() - start:6.1f}s")


if __name__ == "__main__":
    train(Config())
