"""Residual denoising of low-dose CT-like slices stored in one archive."""
import os
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

SLICES = 400
SIZE = 48
BATCH = 16
EPOCHS = 12


def write_archive(path, seed=11):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:SIZE, 0:SIZE].astype(np.float32) / SIZE
    clean = np.zeros((SLICES, SIZE, SIZE), np.float32)
    for i in range(SLICES):
        for _ in range(5):
            cx, cy, rx, ry = rng.uniform(0.15, 0.85, 2).tolist() + rng.uniform(0.05, 0.3, 2).tolist()
            clean[i] += rng.uniform(0.2, 1.0) * (((xx - cx) / rx) ** 2 + ((yy - cy) / ry) ** 2 < 1)
    dose = rng.uniform(0.1, 0.4, SLICES).astype(np.float32)
    noisy = clean + dose[:, None, None] * rng.standard_normal(clean.shape, dtype=np.float32)
    np.savez(path, clean=clean, noisy=noisy, dose=dose)


class SliceSet(Dataset):
    def __init__(self, path, augment=True):
        self.scans = np.load(path)
        self.augment = augment
        self.count = len(self.scans["dose"])

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        noisy = self.scans["noisy"][i]
        clean = self.scans["clean"][i]
        if self.augment and i % 2:
            noisy, clean = noisy[:, ::-1], clean[:, ::-1]
        return (torch.from_numpy(noisy.copy())[None], torch.from_numpy(clean.copy())[None],
                float(self.scans["dose"][i]))


class Denoiser(nn.Module):
    def __init__(self, width=24, depth=4):
        super().__init__()
        layers = [nn.Conv2d(2, width, 3, padding=1), nn.ReLU()]
        for _ in range(depth - 2):
            layers += [nn.Conv2d(width, width, 3, padding=1), nn.ReLU()]
        layers.append(nn.Conv2d(width, 1, 3, padding=1))
        self.body = nn.Sequential(*layers)

    def forward(self, noisy, dose):
        level = dose.view(-1, 1, 1, 1).expand_as(noisy)
        return noisy - self.body(torch.cat([noisy, level], 1))


def psnr(pred, target):
    mse = F.mse_loss(pred, target)
    return 10 * torch.log10(target.max() ** 2 / mse)


def train(path):
    torch.manual_seed(2)
    loader = DataLoader(SliceSet(path), batch_size=BATCH, shuffle=True, drop_last=True)
    net = Denoiser()
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, EPOCHS * len(loader))
    step, start = 0, time.time()
    for epoch in range(EPOCHS):
        for noisy, clean, dose in loader:
            pred = net(noisy, dose.float())
            loss = F.l1_loss(pred, clean)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            step += 1
            if step % 25 == 0:
                print(f"step {step:4d} loss {loss.item():.4f} "
                      f"psnr {psnr(pred.detach(), clean).item():.1f} "
                      f"time {time.time() - start:.2f}s", flush=True)


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "slices.npz")
        write_archive(path)
        train(path)


if __name__ == "__main__":
    main()
