"""Spectrally normalised GAN on 2-d ring point clouds lifted to 128 dimensions."""
import argparse
import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


def make_data(n, dim, seed):
    g = torch.Generator().manual_seed(seed)
    radius = torch.randint(1, 4, (n, 1), generator=g).float() / 3.0
    angle = 2 * math.pi * torch.rand(n, 1, generator=g)
    pts = radius * torch.cat([angle.cos(), angle.sin()], dim=1)
    pts = pts + 0.02 * torch.randn(n, 2, generator=g)
    lift = torch.randn(2, dim, generator=torch.Generator().manual_seed(42)) / math.sqrt(2)
    return torch.tanh(pts @ lift)


class SNLinear(nn.Module):
    """Linear layer whose weight is divided by its largest singular value."""

    def __init__(self, in_features, out_features):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(out_features, in_features))
        self.bias = nn.Parameter(torch.zeros(out_features))
        nn.init.orthogonal_(self.weight)

    def sigma(self):
        return torch.linalg.matrix_norm(self.weight, ord=2)

    def forward(self, x):
        return F.linear(x, self.weight / self.sigma(), self.bias)


class Discriminator(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.l1 = SNLinear(dim, hidden)
        self.l2 = SNLinear(hidden, hidden)
        self.l3 = SNLinear(hidden, 1)

    def forward(self, x):
        h = F.leaky_relu(self.l1(x), 0.1)
        h = F.leaky_relu(self.l2(h), 0.1)
        return self.l3(h).squeeze(1)


class Generator(nn.Module):
    def __init__(self, z_dim, dim, hidden):
        super().__init__()
        self.z_dim = z_dim
        self.net = nn.Sequential(
            nn.Linear(z_dim, hidden), nn.BatchNorm1d(hidden), nn.ReLU(),
            nn.Linear(hidden, hidden), nn.BatchNorm1d(hidden), nn.ReLU(),
            nn.Linear(hidden, dim), nn.Tanh())

    def forward(self, z):
        return self.net(z)


def moment_distance(real, fake):
    mean = (real.mean(0) - fake.mean(0)).pow(2).mean()
    cov = (torch.cov(real.T) - torch.cov(fake.T)).pow(2).mean()
    return (mean + cov).sqrt().item()


def parse_args():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--n-data", type=int, default=20000)
    p.add_argument("--dim", type=int, default=128)
    p.add_argument("--hidden", type=int, default=192)
    p.add_argument("--z-dim", type=int, default=32)
    p.add_argument("--batch-size", type=int, default=256)
    p.add_argument("--steps", type=int, default=900)
    p.add_argument("--d-lr", type=float, default=4e-4)
    p.add_argument("--g-lr", type=float, default=2e-4)
    p.add_argument("--report-every", type=int, default=150)
    return p.parse_args()


def main():
    args = parse_args()
    torch.manual_seed(0)
    data = make_data(args.n_data, args.dim, seed=1)
    held_out = make_data(2000, args.dim, seed=2)
    D = Discriminator(args.dim, args.hidden)
    G = Generator(args.z_dim, args.dim, args.hidden)
    opt_d = torch.optim.Adam(D.parameters(), lr=args.d_lr, betas=(0.0, 0.9))
    opt_g = torch.optim.Adam(G.parameters(), lr=args.g_lr, betas=(0.0, 0.9))
    fixed_z = torch.randn(2000, args.z_dim)

    d_sum, g_sum = torch.zeros(()), torch.zeros(())
    start = time.perf_counter()
    for step in range(1, args.steps + 1):
        real = data[torch.randint(0, args.n_data, (args.batch_size,))]
        z = torch.randn(args.batch_size, args.z_dim)
        with torch.no_grad():
            fake = G(z)
        scores = D(torch.cat([real, fake]))
        d_real, d_fake = scores.chunk(2)
        d_loss = F.relu(1 - d_real).mean() + F.relu(1 + d_fake).mean()
        opt_d.zero_grad(set_to_none=True)
        d_loss.backward()
        opt_d.step()

        D.requires_grad_(False)
        g_loss = -D(G(torch.randn(args.batch_size, args.z_dim))).mean()
        opt_g.zero_grad(set_to_none=True)
        g_loss.backward()
        opt_g.step()
        D.requires_grad_(True)

        d_sum += d_loss.detach()
        g_sum += g_loss.detach()
        if step % args.report_every == 0:
            G.eval()
            with torch.no_grad():
                dist = moment_distance(held_out, G(fixed_z))
            G.train()
            n = args.report_every
            print(f"step {step} d {d_sum.item() / n:.4f} g {g_sum.item() / n:.4f} dist {dist:.4f}")
            d_sum.zero_()
            g_sum.zero_()
    elapsed = time.perf_counter() - start
    print(f"{args.steps} steps, {1000 * elapsed / args.steps:.2f} ms/step")


if __name__ == "__main__":
    main()
