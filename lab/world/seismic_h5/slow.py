"""Seismic phase picking (P / S / noise per sample) from waveforms stored in HDF5."""
import os
import shutil
import tempfile
import time

import h5py
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, Subset


class Settings:
    n_traces = 1600
    n_samples = 1024
    channels = 3
    batch_size = 16
    epochs = 2
    lr = 2e-3
    width = 12
    valid_fraction = 0.1


def simulate_event(rng, n):
    p = rng.integers(100, n // 2)
    s = p + rng.integers(80, n // 3)
    t = np.arange(n)
    wave = rng.normal(0, 0.1, (3, n))
    for onset, amp, freq in ((p, 1.0, 0.12), (s, 2.0, 0.06)):
        dt = np.maximum(t - onset, 0)
        env = (t >= onset) * np.exp(-dt / 150.0)
        phase = rng.uniform(0, 2 * np.pi, (3, 1))
        wave += amp * rng.uniform(0.4, 1, (3, 1)) * env * np.sin(2 * np.pi * freq * dt + phase)
    return (wave * 2000).astype(np.int16), p, s


def write_archive(path, cfg):
    rng = np.random.default_rng(0)
    with h5py.File(path, "w") as f:
        waves = f.create_dataset("waveforms", (cfg.n_traces, cfg.channels, cfg.n_samples), "i2",
                                 chunks=(64, cfg.channels, cfg.n_samples), compression="gzip")
        onsets = np.zeros((cfg.n_traces, 2), np.int32)
        for start in range(0, cfg.n_traces, 64):
            block = []
            for i in range(start, min(start + 64, cfg.n_traces)):
                w, p, s = simulate_event(rng, cfg.n_samples)
                block.append(w)
                onsets[i] = p, s
            waves[start:start + len(block)] = np.stack(block)
        f.create_dataset("onsets", data=onsets)


class WaveformDataset(Dataset):
    def __init__(self, path):
        self.file = h5py.File(path, "r")
        self.waves = self.file["waveforms"]
        self.onsets = self.file["onsets"][:]
        grid = np.arange(self.waves.shape[2])
        self.grid = grid.astype(np.float32)

    def __len__(self):
        return self.waves.shape[0]

    def __getitem__(self, i):
        x = self.waves[i].astype(np.float32)
        x -= x.mean(axis=1, keepdims=True)
        x /= x.std() + 1e-6
        p, s = self.onsets[i]
        y = np.exp(-0.5 * ((self.grid[None] - np.array([[p], [s]], np.float32)) / 10.0) ** 2)
        target = np.concatenate([y, np.clip(1 - y.sum(0, keepdims=True), 0, 1)])
        return torch.from_numpy(x), torch.from_numpy(target.astype(np.float32))


class PhaseNetLite(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.enc1 = self.block(3, w)
        self.enc2 = self.block(w, 2 * w)
        self.enc3 = self.block(2 * w, 4 * w)
        self.dec2 = self.block(6 * w, 2 * w)
        self.dec1 = self.block(3 * w, w)
        self.out = nn.Conv1d(w, 3, 1)

    @staticmethod
    def block(i, o):
        return nn.Sequential(nn.Conv1d(i, o, 7, padding=3), nn.BatchNorm1d(o), nn.ReLU())

    def forward(self, x):
        a = self.enc1(x)
        b = self.enc2(F.max_pool1d(a, 4))
        c = self.enc3(F.max_pool1d(b, 4))
        b = self.dec2(torch.cat([F.interpolate(c, scale_factor=4.0), b], 1))
        a = self.dec1(torch.cat([F.interpolate(b, scale_factor=4.0), a], 1))
        return self.out(a)


def soft_cross_entropy(logits, target):
    return -(target * F.log_softmax(logits, dim=1)).sum(1).mean()


@torch.no_grad()
def pick_error(model, loader):
    model.eval()
    err = []
    for x, y in loader:
        prob = model(x).softmax(1)[:, :2]
        err.append((prob.argmax(2) - y[:, :2].argmax(2)).abs().float())
    model.train()
    return torch.cat(err).median().item()


def run(cfg=Settings):
    torch.manual_seed(0)
    folder = tempfile.mkdtemp(prefix="seis_")
    try:
        path = os.path.join(folder, "archive.h5")
        write_archive(path, cfg)
        dataset = WaveformDataset(path)
        order = torch.randperm(len(dataset)).tolist()
        cut = int(len(order) * cfg.valid_fraction)
        valid = DataLoader(Subset(dataset, sorted(order[:cut])), batch_size=32)
        train = DataLoader(Subset(dataset, order[cut:]), batch_size=cfg.batch_size, shuffle=True,
                           drop_last=True)
        model = PhaseNetLite(cfg.width)
        opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)
        steps, spent = 0, 0.0
        for epoch in range(cfg.epochs):
            tick = time.perf_counter()
            for x, y in train:
                loss = soft_cross_entropy(model(x), y)
                opt.zero_grad()
                loss.backward()
                opt.step()
                steps += 1
                if steps % 20 == 0:
                    print(f"epoch {epoch} step {steps} loss {loss.item():.4f}")
            spent += time.perf_counter() - tick
            print(f"epoch {epoch} median pick error {pick_error(model, valid):.1f} samples")
        print(f"{steps} steps, {1000 * spent / steps:.2f} ms/step")
        dataset.file.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    run()
