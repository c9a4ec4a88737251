"""Diffusion model over human gait cycles (joint-angle trajectories), PyTorch."""
import math
import os
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

STEPS = int(os.environ.get("STEPS", "350"))
FRAMES, JOINTS = 32, 16
BATCH = 48
NOISE_LEVELS = 500
EMA = 0.995


def make_gaits(count=20000, seed=0):
    """Joint angles over one stride: a few harmonics with speed-dependent amplitude."""
    rng = np.random.default_rng(seed)
    basis = np.random.default_rng(5)
    phase = np.arange(FRAMES) / FRAMES * 2 * np.pi
    weight = basis.normal(0, 1, (3, JOINTS)) / np.array([[1], [2], [4]])
    shift = basis.uniform(0, 2 * np.pi, (3, JOINTS))
    speed = rng.uniform(0.6, 1.8, (count, 1, 1))
    gait = np.zeros((count, FRAMES, JOINTS))
    for k in range(3):
        person = rng.normal(1, 0.2, (count, 1, JOINTS))
        gait += speed ** 0.5 * person * weight[k] * np.cos(
            (k + 1) * phase[None, :, None] + shift[k] + rng.normal(0, 0.1, (count, 1, 1)))
    gait += rng.normal(0, 0.02, gait.shape)
    gait /= gait.std()
    return (torch.from_numpy(gait.astype(np.float32)),
            torch.from_numpy(speed[:, :, 0].astype(np.float32)))


class Schedule:
    """Cosine noise schedule with its tables computed once."""

    def __init__(self):
        t = torch.linspace(0, 1, NOISE_LEVELS + 1)
        bar = torch.cos((t + 0.008) / 1.008 * math.pi / 2) ** 2
        bar = (bar / bar[0])[1:].clamp(1e-5, 0.9999)
        self.signal = bar.sqrt()[:, None, None]
        self.noise = (1 - bar).sqrt()[:, None, None]

    def diffuse(self, x, noise, level):
        return self.signal[level] * x + self.noise[level] * noise


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in self.qkv(self.norm1(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, c)
        x = x + self.proj(y)
        return x + self.mlp(self.norm2(x))


class Denoiser(nn.Module):
    def __init__(self, width=96, depth=3, heads=4):
        super().__init__()
        self.inp, self.out = nn.Linear(JOINTS, width), nn.Linear(width, JOINTS)
        self.place = nn.Parameter(0.02 * torch.randn(1, FRAMES, width))
        self.level = nn.Sequential(nn.Embedding(NOISE_LEVELS, 64), nn.Linear(64, width), nn.SiLU())
        self.speed = nn.Linear(1, width)
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(width)

    def forward(self, x, level, speed):
        condition = self.level(level) + self.speed(speed)
        h = self.inp(x) + self.place + condition[:, None]
        return self.out(self.norm(self.blocks(h)))


def main():
    torch.manual_seed(0)
    gaits, speeds = make_gaits()
    schedule = Schedule()
    model, averaged = Denoiser(), Denoiser()
    averaged.load_state_dict(model.state_dict())
    averaged.requires_grad_(False)
    pairs = list(averaged.parameters()), list(model.parameters())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    running = torch.zeros(())
    start = time.time()
    for step in range(1, STEPS + 1):
        pick = torch.randint(len(gaits), (BATCH,))
        x, speed = gaits[pick], speeds[pick]
        level = torch.randint(NOISE_LEVELS, (BATCH,))
        noise = torch.randn_like(x)
        predicted = model(schedule.diffuse(x, noise, level), level, speed)
        loss = F.mse_loss(predicted, noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch._foreach_lerp_(*pairs, 1 - EMA)
        running += loss.detach()
        if step % 50 == 0:
            print(f"step {step:4d}  loss {running.item() / 50:.4f}  "
                  f"{(time.time() - start) / step * 1e3:.1f} ms/step", flush=True)
            running.zero_()


if __name__ == "__main__":
    main()
