"""DCGAN on outlines of simple shapes, with an averaged generator for sampling."""

import argparse
import copy

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


def shapes(n, size=32, seed=0):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:size, 0:size][:, None]
    c = rng.uniform(12, 20, (2, n, 1, 1))
    r = rng.uniform(5, 9, (n, 1, 1))
    round_ = np.hypot(yy - c[0], xx - c[1])
    square = np.maximum(np.abs(yy - c[0]), np.abs(xx - c[1]))
    dist = np.where(rng.random((n, 1, 1)) < 0.5, round_, square)
    img = np.exp(-((dist - r) ** 2) / 2)
    return torch.from_numpy((2 * img - 1).astype(np.float32)).unsqueeze(1)


def init_weights(m):
    if isinstance(m, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(m.weight, 0.0, 0.02)


def generator(z_dim, ch):
    return nn.Sequential(
        nn.ConvTranspose2d(z_dim, 4 * ch, 4, bias=False),
        nn.BatchNorm2d(4 * ch),
        nn.ReLU(True),
        nn.ConvTranspose2d(4 * ch, 2 * ch, 4, 2, 1, bias=False),
        nn.BatchNorm2d(2 * ch),
        nn.ReLU(True),
        nn.ConvTranspose2d(2 * ch, ch, 4, 2, 1, bias=False),
        nn.BatchNorm2d(ch),
        nn.ReLU(True),
        nn.ConvTranspose2d(ch, 1, 4, 2, 1),
        nn.Tanh(),
    )


def discriminator(ch):
    return nn.Sequential(
        nn.Conv2d(1, ch, 4, 2, 1),
        nn.LeakyReLU(0.2, True),
        nn.Conv2d(ch, 2 * ch, 4, 2, 1),
        nn.LeakyReLU(0.2, True),
        nn.Dropout2d(0.1),
        nn.Conv2d(2 * ch, 4 * ch, 4, 2, 1),
        nn.LeakyReLU(0.2, True),
        nn.Conv2d(4 * ch, 1, 4),
        nn.Flatten(0),
    )


@torch.no_grad()
def average(ema, net, decay):
    torch._foreach_lerp_(list(ema.parameters()), list(net.parameters()), 1 - decay)
    for a, b in zip(ema.buffers(), net.buffers()):
        a.copy_(b)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=150)
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--z", type=int, default=48)
    p.add_argument("--ch", type=int, default=20)
    args = p.parse_args()
    torch.manual_seed(2)

    data = shapes(4000)
    G, D = (
        generator(args.z, args.ch).apply(init_weights),
        discriminator(args.ch).apply(init_weights),
    )
    G_ema = copy.deepcopy(G).requires_grad_(False)
    opt_g = torch.optim.Adam(G.parameters(), lr=2e-4, betas=(0.5, 0.999))
    opt_d = torch.optim.Adam(D.parameters(), lr=2e-4, betas=(0.5, 0.999))

    for step in range(1, args.steps + 1):
        real = data[torch.randint(len(data), (args.batch,))]
        fake = G(torch.randn(args.batch, args.z, 1, 1))

        d_loss = F.softplus(-D(real)).mean() + F.softplus(D(fake.detach())).mean()
        opt_d.zero_grad(set_to_none=True)
        d_loss.backward()
        opt_d.step()

        D.requires_grad_(False)
        g_loss = F.softplus(-D(fake)).mean()
        opt_g.zero_grad(set_to_none=True)
        g_loss.backward()
        opt_g.step()
        D.requires_grad_(True)

        average(G_ema, G, 0.99)
        if step % 25 == 0:
            print(f"step {step} D {d_loss.item():.4f} G {g_loss.item():.4f}")

    with torch.no_grad():
        sample = G_ema.eval()(torch.randn(16, args.z, 1, 1))
    print("sample mean %.3f, data mean %.3f" % (sample.mean(), data.mean()))


if __name__ == "__main__":
    main()
