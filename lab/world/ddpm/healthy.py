"""Tiny DDPM on 2-channel 16x16 waves, eps-prediction, EMA weights, sampling now and then."""

import math
import time

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)

T = 200
BATCH = 32
STEPS = 420
EMA = 0.995


def waves(n, g):
    yy, xx = torch.meshgrid(torch.linspace(0, 1, 16), torch.linspace(0, 1, 16), indexing="ij")
    f = torch.rand(n, 1, 1, generator=g) * 4 + 1
    th = torch.rand(n, 1, 1, generator=g) * 2 * math.pi
    ph = f * 2 * math.pi * (xx * th.cos() + yy * th.sin())
    return torch.stack([ph.sin(), ph.cos()], 1)


def timestep_embedding(t, dim=64):
    freqs = torch.exp(-math.log(10000) * torch.arange(dim // 2) / (dim // 2))
    a = t[:, None].float() * freqs[None]
    return torch.cat([a.sin(), a.cos()], -1)


class ResBlock(nn.Module):
    def __init__(self, c, emb=64):
        super().__init__()
        self.n1, self.c1 = nn.GroupNorm(4, c), nn.Conv2d(c, c, 3, padding=1)
        self.n2, self.c2 = nn.GroupNorm(4, c), nn.Conv2d(c, c, 3, padding=1)
        self.emb = nn.Linear(emb, c)

    def forward(self, x, e):
        h = self.c1(F.silu(self.n1(x))) + self.emb(e)[:, :, None, None]
        return x + self.c2(F.silu(self.n2(h)))


class Net(nn.Module):
    def __init__(self, c=24):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 64))
        self.inp = nn.Conv2d(2, c, 3, padding=1)
        self.b1, self.b2, self.b3 = ResBlock(c), ResBlock(c), ResBlock(c)
        self.down = nn.Conv2d(c, c, 3, 2, 1)
        self.up = nn.ConvTranspose2d(c, c, 4, 2, 1)
        self.out = nn.Conv2d(c, 2, 3, padding=1)

    def forward(self, x, t):
        e = self.mlp(timestep_embedding(t))
        h = self.b1(self.inp(x), e)
        m = self.b2(self.down(h), e)
        h = self.b3(h + self.up(m), e)
        return self.out(F.silu(h))


class Diffusion:
    def __init__(self):
        self.betas = torch.linspace(1e-4, 0.02, T)
        self.abar = torch.cumprod(1 - self.betas, 0)

    def loss(self, net, x0, g):
        t = torch.randint(0, T, (x0.size(0),), generator=g)
        noise = torch.randn(x0.shape, generator=g)
        ab = self.abar[t][:, None, None, None]
        return F.mse_loss(net(ab.sqrt() * x0 + (1 - ab).sqrt() * noise, t), noise)

    @torch.no_grad()
    def sample(self, net, n, g, stride=10):
        x = torch.randn(n, 2, 16, 16, generator=g)
        ts = list(range(T - 1, -1, -stride))
        for i, t in enumerate(ts):
            ab = self.abar[t]
            prev = self.abar[ts[i + 1]] if i + 1 < len(ts) else torch.tensor(1.0)
            eps = net(x, torch.full((n,), t))
            x0 = ((x - (1 - ab).sqrt() * eps) / ab.sqrt()).clamp(-1.5, 1.5)
            x = prev.sqrt() * x0 + (1 - prev).sqrt() * eps
        return x


g = torch.Generator().manual_seed(1)
data = waves(4096, g)
net, ema = Net(), Net()
ema.load_state_dict(net.state_dict())
ema_params, params = list(ema.parameters()), list(net.parameters())
opt = torch.optim.AdamW(params, lr=2e-3, weight_decay=0.0)
diff = Diffusion()
running = torch.zeros(())
start = time.time()
for step in range(1, STEPS + 1):
    x0 = data[torch.randint(0, len(data), (BATCH,), generator=g)]
    loss = diff.loss(net, x0, g)
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        torch._foreach_lerp_(ema_params, params, 1 - EMA)
    running += loss.detach()
    if step % 70 == 0:
        print(
            f"step {step} loss {running.item() / 70:.5f} {(time.time() - start) / step * 1000:.2f} ms/step",
            flush=True,
        )
        running.zero_()
    if step % 210 == 0:
        s = diff.sample(ema, 8, g)
        print(
            f"   samples: mean {s.mean().item():.3f} radius {s.pow(2).sum(1).sqrt().mean().item():.3f}"
        )
