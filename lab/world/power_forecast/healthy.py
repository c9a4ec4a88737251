"""Electricity-load forecasting with an MLP-mixer; torch.compile'd, data in memory."""

import time

import torch
from torch import nn

PAST, AHEAD, SITES = 168, 24, 32


def load_curves(hours=6000, seed=0):
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(hours)[:, None]
    phase = 6.28 * torch.rand(1, SITES, generator=g)
    day = torch.sin(2 * torch.pi * t / 24 + phase)
    week = 0.5 * torch.sin(2 * torch.pi * t / 168 + 2 * phase)
    noise = torch.randn(hours, SITES, generator=g)
    walk = 0.02 * noise.cumsum(0)
    x = day * (1 + 0.3 * week) + week + walk + 0.1 * noise
    return (x - x.mean(0)) / x.std(0)


class Mixer(nn.Module):
    def __init__(self, steps, width, hidden):
        super().__init__()
        self.time = nn.Sequential(
            nn.LayerNorm(steps), nn.Linear(steps, hidden), nn.GELU(), nn.Linear(hidden, steps)
        )
        self.site = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, x):  # [batch, site, time]
        x = x + self.time(x)
        return x + self.site(x.transpose(1, 2)).transpose(1, 2)


class Forecaster(nn.Module):
    def __init__(self, hidden=192, depth=2):
        super().__init__()
        self.mix = nn.Sequential(*[Mixer(PAST, SITES, hidden) for _ in range(depth)])
        self.head = nn.Linear(PAST, AHEAD)

    def forward(self, x):
        level = x[:, -1:, :].transpose(1, 2)
        x = x.transpose(1, 2) - level
        return (self.head(self.mix(x)) + level).transpose(1, 2)


class Experiment:
    def __init__(self, batch=48, lr=1e-3, steps=250):
        series = load_curves()
        windows = series.unfold(0, PAST + AHEAD, 1).transpose(1, 2)
        self.train, self.test = windows[:5000], windows[5200:5584:8]
        self.net = Forecaster()
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=lr)
        self.sched = torch.optim.lr_scheduler.OneCycleLR(self.opt, 3 * lr, total_steps=steps)
        self.loss = nn.SmoothL1Loss()
        self.step_fn = torch.compile(self.forward_loss)
        self.batch, self.steps = batch, steps

    def forward_loss(self, w):
        return self.loss(self.net(w[:, :PAST]), w[:, PAST:])

    def run(self):
        for step in range(1, self.steps + 1):
            w = self.train[torch.randint(len(self.train), (self.batch,))]
            loss = self.step_fn(w)
            loss.backward()
            self.opt.step()
            self.sched.step()
            self.opt.zero_grad(set_to_none=True)
            if step % 25 == 0:
                print(f"step {step} loss {loss.item():.4f}")
            if step % 200 == 0:
                self.evaluate()

    @torch.no_grad()
    def evaluate(self):
        self.net.eval()
        error = (self.net(self.test[:, :PAST]) - self.test[:, PAST:]).abs().mean()
        self.net.train()
        print(f"test MAE {error.item():.4f}")


if __name__ == "__main__":
    torch.manual_seed(17)
    start = time.time()
    Experiment().run()
    print(f"total {time.time() - start:.0f} s")
