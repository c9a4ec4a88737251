"""N-BEATS style forecasting of hourly electricity load."""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--lookback", type=int, default=168)
    p.add_argument("--horizon", type=int, default=24)
    p.add_argument("--width", type=int, default=192)
    p.add_argument("--blocks", type=int, default=4)
    p.add_argument("--batch-size", type=int, default=160)
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--seed", type=int, default=2)
    return p.parse_args()


def make_series(n_sites=10, hours=2600, seed=2):
    rng = np.random.default_rng(seed)
    t = np.arange(hours)
    out = []
    for _ in range(n_sites):
        day = rng.uniform(0.5, 1.5) * np.sin(2 * np.pi * t / 24 + rng.uniform(0, 6))
        week = rng.uniform(0.2, 0.8) * np.sin(2 * np.pi * t / 168 + rng.uniform(0, 6))
        drift = np.cumsum(rng.normal(0, 0.01, hours))
        out.append(10 + day + week + drift + rng.normal(0, 0.15, hours))
    series = np.stack(out)
    mean = series.mean(axis=1, keepdims=True)
    std = series.std(axis=1, keepdims=True)
    return (series - mean) / std


def make_windows(series, lookback, horizon, stride=1):
    view = np.lib.stride_tricks.sliding_window_view(series, lookback + horizon, axis=1)[:, ::stride]
    flat = view.reshape(-1, lookback + horizon)
    return flat[:, :lookback].copy(), flat[:, lookback:].copy()


class Block(nn.Module):
    def __init__(self, lookback, horizon, width):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(lookback, width), nn.ReLU(),
            nn.Linear(width, width), nn.ReLU(),
            nn.Linear(width, width), nn.ReLU(),
            nn.Linear(width, width), nn.ReLU())
        self.backcast = nn.Linear(width, lookback)
        self.forecast = nn.Linear(width, horizon)

    def forward(self, x):
        h = self.body(x)
        return self.backcast(h), self.forecast(h)


class NBeats(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.blocks = nn.ModuleList(
            [Block(args.lookback, args.horizon, args.width) for _ in range(args.blocks)])

    def forward(self, x):
        total = 0.0
        for block in self.blocks:
            back, fore = block(x)
            x = x - back
            total = total + fore
        return total


def main():
    args = get_args()
    torch.manual_seed(args.seed)
    series = make_series(seed=args.seed)
    past, future = make_windows(series, args.lookback, args.horizon)
    dataset = TensorDataset(torch.from_numpy(past), torch.from_numpy(future))
    sampler = torch.utils.data.BatchSampler(
        torch.utils.data.RandomSampler(dataset), args.batch_size, drop_last=True)
    loader = DataLoader(dataset, sampler=sampler, batch_size=None)
    model = NBeats(args).double()
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    start, step = time.time(), 0
    for epoch in range(args.epochs):
        running = 0.0
        for x, y in loader:
            loss = torch.nn.functional.smooth_l1_loss(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            running = 0.98 * running + 0.02 * loss.detach()
            if step % 25 == 0:
                print(f"epoch {epoch} step {step:4d} loss {loss.item():.5f} "
                      f"time {time.time() - start:.1f}s", flush=True)
            step += 1
    print(f"trained {step} steps, smoothed loss {float(running):.5f}")


if __name__ == "__main__":
    main()
