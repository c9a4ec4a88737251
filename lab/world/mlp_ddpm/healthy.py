# Diffusion for 2-D point clouds, converted from a notebook.

# %% imports
import math
import os
import tempfile

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)

# %% settings
STEPS, WARMUP, BATCH, T, WIDTH = 400, 40, 768, 250, 256

# %% data: two spirals
n = 20_000
theta = 3 * math.pi * torch.rand(n).sqrt()
arm = torch.randint(0, 2, (n,)) * math.pi
points = torch.stack([theta * torch.cos(theta + arm), theta * torch.sin(theta + arm)], 1) / 5
points += 0.03 * torch.randn_like(points)
train, held_out = points[:18_000], points[18_000:]

# %% noise schedule
beta = torch.linspace(1e-4, 0.03, T)
alpha_bar = torch.cumprod(1 - beta, 0)
signal, sigma = alpha_bar.sqrt()[:, None], (1 - alpha_bar).sqrt()[:, None]


# %% model
class TimeEmbedding(nn.Module):
    def __init__(self, dim):
        super().__init__()
        freq = torch.exp(torch.arange(dim // 2) * (-math.log(1000) / (dim // 2)))
        angle = torch.arange(T)[:, None] * freq
        self.register_buffer("table", torch.cat([angle.sin(), angle.cos()], 1))

    def forward(self, t):
        return self.table[t]


class ResBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.a, self.b = nn.Linear(width, width), nn.Linear(width, width)
        self.drop = nn.Dropout(0.05)

    def forward(self, h, temb):
        return h + self.b(self.drop(F.silu(self.a(self.norm(h) + temb))))


class Denoiser(nn.Module):
    def __init__(self, width=WIDTH, blocks=3):
        super().__init__()
        self.temb = nn.Sequential(TimeEmbedding(64), nn.Linear(64, width), nn.SiLU())
        self.inp, self.out = nn.Linear(2, width), nn.Linear(width, 2)
        self.blocks = nn.ModuleList(ResBlock(width) for _ in range(blocks))

    def forward(self, x, t):
        h, temb = self.inp(x), self.temb(t)
        for block in self.blocks:
            h = block(h, temb)
        return self.out(h)


def diffusion_loss(net, x0):
    t = torch.randint(T, (len(x0),))
    eps = torch.randn_like(x0)
    return F.mse_loss(net(signal[t] * x0 + sigma[t] * eps, t), eps)


# %% training
net = Denoiser()
ema = torch.optim.swa_utils.AveragedModel(
    net, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.99)
)
opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
sched = torch.optim.lr_scheduler.LambdaLR(
    opt, lambda s: min(1, (s + 1) / WARMUP) * 0.5 * (1 + math.cos(math.pi * s / STEPS))
)
for step in range(1, STEPS + 1):
    loss = diffusion_loss(net, train[torch.randint(len(train), (BATCH,))])
    opt.zero_grad()
    loss.backward()
    opt.step()
    sched.step()
    ema.update_parameters(net)
    if step % 50 == 0:
        print(f"{step:4d} loss {loss.item():.4f} lr {sched.get_last_lr()[0]:.2e}")
    if step % 200 == 0:
        ema.eval()
        with torch.no_grad():
            print(f"     held-out {diffusion_loss(ema, held_out).item():.4f}")

# %% save
with tempfile.TemporaryDirectory() as d:
    torch.save({"net": net.state_dict(), "ema": ema.state_dict()}, os.path.join(d, "ddpm.pt"))
    print("checkpoint written")
