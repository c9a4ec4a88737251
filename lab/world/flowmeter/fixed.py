"""River discharge forecasting from gauge and rainfall series with a TCN."""
import os
import time

import numpy as np
import torch
import torch.nn as nn

STEPS = int(os.environ.get("STEPS", "350"))
WINDOW = 72          # hours seen
HORIZON = 24         # hours predicted
BATCH = 8


def make_catchment(hours=24 * 365 * 2, seed=0):
    """Hourly rain at three stations, temperature, and the discharge they cause."""
    rng = np.random.default_rng(seed)
    storm = (rng.random((hours, 3)) < 0.01) * rng.gamma(2.0, 4.0, (hours, 3))
    kernel = np.exp(-np.arange(12) / 4.0)
    rain = np.stack([np.convolve(storm[:, s], kernel)[:hours] for s in range(3)], 1)
    day = np.arange(hours) / 24
    temperature = 10 + 9 * np.sin(2 * np.pi * day / 365) + rng.normal(0, 1, hours)
    lag = np.exp(-np.arange(240) / 60.0)
    runoff = sum(np.convolve(np.roll(rain[:, s], 6 * (s + 1)), lag)[:hours] for s in range(3))
    discharge = 3 + 0.05 * runoff + 0.2 * rng.random(hours)
    series = np.column_stack([rain, temperature, np.log(discharge)])
    series = (series - series.mean(0)) / series.std(0)
    return torch.from_numpy(series.astype(np.float32))


class Windows:
    """Random training windows, gathered as one indexed read per batch."""

    def __init__(self, series, batch):
        self.series, self.batch = series, batch
        self.offsets = torch.arange(WINDOW + HORIZON)
        self.last = len(series) - WINDOW - HORIZON

    def sample(self):
        begin = torch.randint(self.last, (self.batch, 1))
        part = self.series[begin + self.offsets]
        return part[:, :WINDOW].transpose(1, 2).contiguous(), part[:, WINDOW:, -1]


class CausalPad1d(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, x):
        return nn.functional.pad(x, (self.size, 0))


class TemporalBlock(nn.Module):
    def __init__(self, cin, cout, kernel, dilation):
        super().__init__()
        padding = (kernel - 1) * dilation
        self.net = nn.Sequential(
            CausalPad1d(padding), nn.Conv1d(cin, cout, kernel, dilation=dilation),
            nn.ReLU(),
            CausalPad1d(padding), nn.Conv1d(cout, cout, kernel, dilation=dilation),
            nn.ReLU())
        self.skip = nn.Conv1d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x):
        return torch.relu(self.net(x) + self.skip(x))


class TCN(nn.Module):
    def __init__(self, features, width=40, levels=7, kernel=16):
        super().__init__()
        self.blocks = nn.Sequential(*[
            TemporalBlock(features if i == 0 else width, width, kernel, 2 ** i)
            for i in range(levels)])
        self.head = nn.Linear(width, 2 * HORIZON)

    def forward(self, x):
        last = self.blocks(x)[:, :, -1]
        mean, log_scale = self.head(last).chunk(2, dim=1)
        return mean, log_scale.clamp(-4, 2)


def laplace_nll(mean, log_scale, target):
    return (log_scale + (target - mean).abs() * torch.exp(-log_scale)).mean()


def main():
    torch.manual_seed(0)
    series = make_catchment()
    windows = Windows(series, BATCH)
    model = TCN(series.shape[1])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    start = time.time()
    for step in range(1, STEPS + 1):
        past, future = windows.sample()
        mean, log_scale = model(past)
        loss = laplace_nll(mean, log_scale, future)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 50 == 0:
            mae = (mean - future).abs().mean()
            print(f"step {step:4d}  nll {loss.item():.4f}  mae {mae.item():.3f}  "
                  f"{(time.time() - start) / step * 1e3:.1f} ms/step", flush=True)


if __name__ == "__main__":
    main()
