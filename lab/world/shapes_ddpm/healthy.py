"""Small DDPM on 16x16 synthetic shape images."""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

SIZE = 16


def make_shapes(count, seed=0):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:SIZE, 0:SIZE].astype(np.float32)
    cx, cy = rng.uniform(5, 11, (2, count, 1, 1)).astype(np.float32)
    r = rng.uniform(2, 5, (count, 1, 1)).astype(np.float32)
    disc = ((xx - cx) ** 2 + (yy - cy) ** 2 <= r ** 2)
    box = (np.abs(xx - cx) <= r) & (np.abs(yy - cy) <= r)
    kind = rng.integers(0, 2, (count, 1, 1))
    img = np.where(kind == 0, disc, box).astype(np.float32) * 2.0 - 1.0
    return torch.from_numpy(img[:, None]), torch.from_numpy(kind.reshape(-1))


class Block(nn.Module):
    def __init__(self, cin, cout, emb):
        super().__init__()
        self.c1 = nn.Conv2d(cin, cout, 3, padding=1)
        self.c2 = nn.Conv2d(cout, cout, 3, padding=1)
        self.n1 = nn.GroupNorm(8, cout)
        self.n2 = nn.GroupNorm(8, cout)
        self.emb = nn.Linear(emb, cout)
        self.skip = nn.Conv2d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x, e):
        h = F.silu(self.n1(self.c1(x))) + self.emb(e)[:, :, None, None]
        return F.silu(self.n2(self.c2(h))) + self.skip(x)


class UNet(nn.Module):
    def __init__(self, width=32, emb=64):
        super().__init__()
        self.register_buffer("freqs", torch.exp(-np.log(10000.0) * torch.arange(16) / 16))
        self.time = nn.Sequential(nn.Linear(32, emb), nn.SiLU(), nn.Linear(emb, emb))
        self.label = nn.Embedding(2, emb)
        self.inp = nn.Conv2d(1, width, 3, padding=1)
        self.d1 = Block(width, width, emb)
        self.d2 = Block(width, 2 * width, emb)
        self.mid = Block(2 * width, 2 * width, emb)
        self.u2 = Block(4 * width, width, emb)
        self.u1 = Block(2 * width, width, emb)
        self.out = nn.Conv2d(width, 1, 3, padding=1)

    def forward(self, x, t, y):
        arg = t[:, None].float() * self.freqs
        e = F.silu(self.time(torch.cat([arg.sin(), arg.cos()], dim=1)) + self.label(y))
        a = self.d1(self.inp(x), e)
        b = self.d2(F.avg_pool2d(a, 2), e)
        c = self.mid(F.avg_pool2d(b, 2), e)
        c = self.u2(torch.cat([F.interpolate(c, scale_factor=2), b], dim=1), e)
        c = self.u1(torch.cat([F.interpolate(c, scale_factor=2), a], dim=1), e)
        return self.out(c)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=400)
    p.add_argument("--batch-size", type=int, default=64)
    p.add_argument("--images", type=int, default=8000)
    p.add_argument("--timesteps", type=int, default=400)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--ema", type=float, default=0.995)
    args = p.parse_args()

    torch.manual_seed(0)
    images, labels = make_shapes(args.images)
    betas = torch.linspace(1e-4, 0.03, args.timesteps)
    alpha_bar = torch.cumprod(1.0 - betas, dim=0)
    sqrt_ab, sqrt_1mab = alpha_bar.sqrt(), (1.0 - alpha_bar).sqrt()

    model = UNet()
    params = [q for q in model.parameters()]
    ema = [q.detach().clone() for q in params]
    opt = torch.optim.AdamW(params, lr=args.lr)

    running, start = torch.zeros(()), time.time()
    for step in range(1, args.steps + 1):
        idx = torch.randint(0, args.images, (args.batch_size,))
        x0, y = images[idx], labels[idx]
        t = torch.randint(0, args.timesteps, (args.batch_size,))
        noise = torch.randn_like(x0)
        xt = sqrt_ab[t, None, None, None] * x0 + sqrt_1mab[t, None, None, None] * noise
        loss = F.mse_loss(model(xt, t, y), noise)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(params, 1.0)
        opt.step()
        with torch.no_grad():
            torch._foreach_lerp_(ema, params, 1.0 - args.ema)
        running += loss.detach()
        if step % 20 == 0:
            print(f"step {step} loss {running.item() / 20:.4f} elapsed {time.time() - start:.2f}s", flush=True)
            running.zero_()


if __name__ == "__main__":
    main()
