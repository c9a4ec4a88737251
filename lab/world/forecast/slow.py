"""Electricity load forecasting with a small TCN. Data sits in one .npz like the one we got from the grid operator."""

import os
import tempfile
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset

HIST, HORIZON = 168, 24
BATCH = 24
EPOCHS = 3
STEPS_PER_EPOCH = 160


def make_archive(path, hours=9000, zones=12, seed=0):
    rng = np.random.default_rng(seed)
    t = np.arange(hours)[:, None]
    phase = rng.uniform(0, 6.28, zones)
    load = (
        np.sin(2 * np.pi * t / 24 + phase)
        + 0.4 * np.sin(2 * np.pi * t / 168 + phase)
        + 0.1 * rng.standard_normal((hours, zones))
    )
    temp = np.cos(2 * np.pi * t / (24 * 365) + phase) + 0.2 * rng.standard_normal((hours, zones))
    np.savez(
        path, load=load.astype(np.float32), temp=temp.astype(np.float32), zones=np.arange(zones)
    )


class LoadDataset(Dataset):
    def __init__(self, path, hist=HIST, horizon=HORIZON):
        self.data = np.load(path)
        self.hist, self.horizon = hist, horizon
        self.n_hours, self.n_zones = self.data["load"].shape
        self.mean = self.data["load"].mean()
        self.std = self.data["load"].std()

    def __len__(self):
        return (self.n_hours - self.hist - self.horizon) * self.n_zones

    def __getitem__(self, idx):
        t, z = divmod(idx, self.n_zones)
        mid, end = t + self.hist, t + self.hist + self.horizon
        load = self.data["load"][t:end, z]
        temp = self.data["temp"][t:mid, z]
        load = (load - self.mean) / self.std
        x = np.stack([load[: self.hist], temp])
        return torch.from_numpy(x), torch.from_numpy(load[self.hist :])


class Block(nn.Module):
    def __init__(self, c, dilation):
        super().__init__()
        self.conv1 = nn.Conv1d(c, c, 3, padding=dilation, dilation=dilation)
        self.conv2 = nn.Conv1d(c, c, 3, padding=dilation, dilation=dilation)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        h = torch.relu(self.conv1(x))
        return torch.relu(x + self.drop(self.conv2(h)))


class TCN(nn.Module):
    def __init__(self, c=24):
        super().__init__()
        self.inp = nn.Conv1d(2, c, 1)
        self.blocks = nn.Sequential(*[Block(c, d) for d in (1, 2, 4, 8, 16)])
        self.head = nn.Linear(c * 2, HORIZON)

    def forward(self, x):
        h = self.blocks(self.inp(x))
        return self.head(torch.cat([h.mean(-1), h[..., -1]], 1))


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    err = n = 0.0
    for x, y in loader:
        err += (model(x) - y).abs().sum().item()
        n += y.numel()
    model.train()
    return err / n


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    path = os.path.join(tempfile.mkdtemp(), "grid.npz")
    make_archive(path)
    ds = LoadDataset(path)
    split = int(len(ds) * 0.9)
    train = Subset(ds, range(split))
    val = Subset(ds, range(split, len(ds), 101))
    val_loader = DataLoader(val, batch_size=64)
    model = TCN()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, EPOCHS * STEPS_PER_EPOCH)
    total, n_steps = 0.0, 0
    for epoch in range(EPOCHS):
        sampler = torch.utils.data.RandomSampler(
            train, replacement=True, num_samples=BATCH * STEPS_PER_EPOCH
        )
        t0, running = time.time(), 0.0
        for i, (x, y) in enumerate(DataLoader(train, batch_size=BATCH, sampler=sampler)):
            loss = nn.functional.smooth_l1_loss(model(x), y)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            sched.step()
            running += loss.item()
            if (i + 1) % 40 == 0:
                print(f"epoch {epoch} iter {i + 1} loss {running / 40:.6f}", flush=True)
                running = 0.0
        total += time.time() - t0
        n_steps += i + 1
        print(f"epoch {epoch} val mae {evaluate(model, val_loader):.6f}")
    print(f"{total / n_steps * 1000:.2f} ms/iter")


if __name__ == "__main__":
    main()
