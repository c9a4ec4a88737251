"""Day-ahead electricity load forecasting with a residual block network (N-BEATS style)."""
import csv
import os
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

STEPS = int(os.environ.get("STEPS", "450"))
LOOKBACK = 168
HORIZON = 24
BATCH = 256
WIDTH = 256


def write_meter_file(path, hours=24 * 500, seed=0):
    rng = np.random.default_rng(seed)
    t = np.arange(hours)
    temp = 10 + 9 * np.sin(2 * np.pi * t / 8760 - 2) + 4 * np.sin(2 * np.pi * t / 24 - 2.2)
    temp += np.convolve(rng.normal(0, 1, hours), np.ones(48) / 8, mode="same")
    weekday = (t // 24) % 7
    load = 420 + 90 * np.sin(2 * np.pi * (t % 24) / 24 - 1.9) + 35 * np.sin(4 * np.pi * t / 24)
    load -= 60 * (weekday >= 5)
    load += 2.2 * np.abs(temp - 16) ** 1.3 + rng.normal(0, 8, hours)
    with open(path, "w", newline="") as f:
        writer = csv.writer(f)
        writer.writerow(["hour", "load", "temp"])
        writer.writerows(zip(t.tolist(), load.round(3).tolist(), temp.round(3).tolist()))


def read_meter_file(path):
    with open(path, newline="") as f:
        rows = list(csv.DictReader(f))
    load = np.array([float(r["load"]) for r in rows])
    temp = np.array([float(r["temp"]) for r in rows])
    return load, temp


def standardize(x, n_train):
    return (x - x[:n_train].mean()) / x[:n_train].std()


def make_windows(load, temp):
    view = np.lib.stride_tricks.sliding_window_view
    total = LOOKBACK + HORIZON
    lw, tw = view(load, total), view(temp, total)
    inputs = np.concatenate([lw[:, :LOOKBACK], tw], axis=1)
    return inputs, lw[:, LOOKBACK:].copy()


class Block(nn.Module):
    def __init__(self, d_in):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(d_in, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH),
                                  nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU())
        self.backcast = nn.Linear(WIDTH, d_in)
        self.forecast = nn.Linear(WIDTH, HORIZON)

    def forward(self, x):
        h = self.body(x)
        return x - self.backcast(h), self.forecast(h)


class Forecaster(nn.Module):
    def __init__(self, d_in, n_blocks=4):
        super().__init__()
        self.blocks = nn.ModuleList(Block(d_in) for _ in range(n_blocks))

    def forward(self, x):
        total = 0
        for block in self.blocks:
            x, part = block(x)
            total = total + part
        return total


@torch.no_grad()
def mean_abs_error(model, x, y):
    return (model(x) - y).abs().mean().item()


def main():
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "meter.csv")
        write_meter_file(path)
        load, temp = read_meter_file(path)
    n_train = int(0.8 * len(load))
    load, temp = standardize(load, n_train), standardize(temp, n_train)
    inputs, targets = make_windows(load, temp)
    cut = n_train - LOOKBACK - HORIZON
    x_train, y_train = torch.from_numpy(inputs[:cut]), torch.from_numpy(targets[:cut])
    x_val, y_val = torch.from_numpy(inputs[n_train:]), torch.from_numpy(targets[n_train:])

    model = Forecaster(inputs.shape[1]).double()
    opt = torch.optim.AdamW(model.parameters(), lr=5e-4)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=max(STEPS, 1))

    start = time.perf_counter()
    for step in range(STEPS):
        if step == 20:
            start = time.perf_counter()
        idx = torch.randint(0, len(x_train), (BATCH,))
        loss = F.huber_loss(model(x_train[idx]), y_train[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        if step % 75 == 0:
            print(f"step {step:4d}  loss {loss.item():.5f}", flush=True)
    elapsed = time.perf_counter() - start

    print(f"final loss {loss.item():.5f}  val mae {mean_abs_error(model, x_val, y_val):.4f}")
    print(f"{1000 * elapsed / max(STEPS - 20, 1):.2f} ms/step")


if __name__ == "__main__":
    main()
