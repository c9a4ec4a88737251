"""A small denoising diffusion model on 16x16 synthetic blob images."""
import math
import time
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    n_train: int = 4096
    size: int = 16
    width: int = 32
    timesteps: int = 200
    batch_size: int = 64
    epochs: int = 4
    lr: float = 2e-3
    ema_decay: float = 0.99


def make_images(n, size, seed=0):
    g = torch.Generator().manual_seed(seed)
    grid = torch.linspace(-1, 1, size)
    yy, xx = torch.meshgrid(grid, grid, indexing="ij")
    cx, cy = torch.rand(2, n, 1, 1, generator=g) * 1.2 - 0.6
    s = torch.rand(n, 1, 1, generator=g) * 0.3 + 0.15
    img = torch.exp(-((xx - cx) ** 2 + (yy - cy) ** 2) / (2 * s ** 2))
    return (img * 2 - 1).unsqueeze(1)


class TimeEmbedding(nn.Module):
    def __init__(self, dim, out):
        super().__init__()
        freqs = torch.exp(-math.log(10000.0) * torch.arange(dim // 2) / (dim // 2))
        self.register_buffer("freqs", freqs)
        self.mlp = nn.Sequential(nn.Linear(dim, out), nn.SiLU(), nn.Linear(out, out))

    def forward(self, t):
        a = t[:, None].float() * self.freqs
        return self.mlp(torch.cat([a.sin(), a.cos()], dim=1))


class Block(nn.Module):
    def __init__(self, ch, emb):
        super().__init__()
        self.norm = nn.GroupNorm(8, ch)
        self.conv1 = nn.Conv2d(ch, ch, 3, padding=1)
        self.conv2 = nn.Conv2d(ch, ch, 3, padding=1)
        self.proj = nn.Linear(emb, ch)

    def forward(self, x, e):
        h = self.conv1(F.silu(self.norm(x))) + self.proj(e)[:, :, None, None]
        return x + self.conv2(F.silu(h))


class Denoiser(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.time = TimeEmbedding(32, 64)
        self.stem = nn.Conv2d(1, width, 3, padding=1)
        self.high = Block(width, 64)
        self.down = nn.Conv2d(width, width, 3, stride=2, padding=1)
        self.low = Block(width, 64)
        self.out = nn.Conv2d(width, 1, 3, padding=1)

    def forward(self, x, t):
        e = self.time(t)
        h = self.high(self.stem(x), e)
        l = self.low(self.down(h), e)
        return self.out(h + F.interpolate(l, scale_factor=2.0, mode="nearest"))


class Diffusion:
    def __init__(self, timesteps):
        beta = torch.linspace(1e-4, 0.03, timesteps)
        abar = torch.cumprod(1 - beta, dim=0)
        self.timesteps = timesteps
        self.sqrt_abar = abar.sqrt()[:, None, None, None]
        self.sqrt_one_minus = (1 - abar).sqrt()[:, None, None, None]

    def noisy(self, x, t, noise):
        return self.sqrt_abar[t] * x + self.sqrt_one_minus[t] * noise


@torch.no_grad()
def validate(model, diffusion, images):
    model.eval()
    g = torch.Generator().manual_seed(7)
    t = torch.randint(0, diffusion.timesteps, (len(images),), generator=g)
    noise = torch.randn(images.shape, generator=g)
    loss = F.mse_loss(model(diffusion.noisy(images, t, noise), t), noise)
    model.train()
    return loss.item()


def main():
    cfg = Config()
    torch.manual_seed(0)
    train = make_images(cfg.n_train, cfg.size)
    valid = make_images(256, cfg.size, seed=1)
    diffusion = Diffusion(cfg.timesteps)
    model = Denoiser(cfg.width)
    ema = torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(cfg.ema_decay))
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr)
    steps_per_epoch = cfg.n_train // cfg.batch_size
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, cfg.lr, cfg.epochs * steps_per_epoch)

    start, step = time.perf_counter(), 0
    for epoch in range(cfg.epochs):
        order = torch.randperm(cfg.n_train)
        total = torch.zeros(())
        for idx in order.split(cfg.batch_size):
            x = train[idx]
            t = torch.randint(0, cfg.timesteps, (len(x),))
            noise = torch.randn_like(x)
            loss = F.mse_loss(model(diffusion.noisy(x, t, noise), t), noise)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            sched.step()
            ema.update_parameters(model)
            total += loss.detach()
            step += 1
        print(f"epoch {epoch} train {total.item() / steps_per_epoch:.4f} "
              f"valid {validate(ema.module, diffusion, valid):.4f}")
    dt = time.perf_counter() - start
    print(f"{step} steps, {1000 * dt / step:.2f} ms/step")


if __name__ == "__main__":
    main()
