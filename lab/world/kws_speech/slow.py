"""Keyword spotting on synthetic log-mel features stored in shards."""
import argparse
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

FRAMES, MELS, CLASSES = 98, 40, 12


def write_shards(folder, shards, per_shard, seed=0):
    rng = np.random.default_rng(seed)
    templates = rng.normal(0, 1, size=(CLASSES, 24, MELS)).astype(np.float32)
    for s in range(shards):
        labels = rng.integers(0, CLASSES, size=per_shard)
        feats = rng.normal(0, 1, size=(per_shard, FRAMES, MELS)).astype(np.float32)
        for i, c in enumerate(labels):
            t = int(rng.integers(0, FRAMES - 24))
            feats[i, t:t + 24] += templates[c]
        np.savez_compressed(Path(folder) / f"shard{s:03d}.npz", feats=feats.astype(np.float16), labels=labels)


class ShardedFeatures(Dataset):
    def __init__(self, folder, per_shard, train=True):
        self.paths = sorted(Path(folder).glob("shard*.npz"))
        self.per_shard = per_shard
        self.train = train

    def __len__(self):
        return len(self.paths) * self.per_shard

    def __getitem__(self, i):
        shard, row = divmod(i, self.per_shard)
        with np.load(self.paths[shard]) as z:
            x = z["feats"][row].astype(np.float32)
            y = int(z["labels"][row])
        if self.train:
            x = np.roll(x, np.random.randint(-8, 9), axis=0)
            m = np.random.randint(0, MELS - 6)
            x[:, m:m + 6] = 0.0
        return torch.from_numpy(x), y


class DSBlock(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.dw = nn.Conv1d(cin, cin, 9, stride=stride, padding=4, groups=cin, bias=False)
        self.pw = nn.Conv1d(cin, cout, 1, bias=False)
        self.bn = nn.BatchNorm1d(cout)

    def forward(self, x):
        return F.relu(self.bn(self.pw(self.dw(x))))


class KeywordNet(nn.Module):
    def __init__(self, width=128):
        super().__init__()
        self.stem = nn.Conv1d(MELS, width, 5, padding=2)
        self.body = nn.Sequential(DSBlock(width, width), DSBlock(width, width, 2),
                                  DSBlock(width, width), DSBlock(width, width, 2))
        self.fc = nn.Linear(width, CLASSES)

    def forward(self, x):
        h = F.relu(self.stem(x.transpose(1, 2)))
        h = self.body(h)
        return self.fc(h.mean(dim=2))


def train(args, folder):
    data = ShardedFeatures(folder, args.per_shard)
    loader = DataLoader(data, batch_size=args.batch_size, shuffle=True, drop_last=True,
                        num_workers=args.workers, persistent_workers=True)
    model = KeywordNet()
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=args.steps)
    step, start = 0, time.time()
    while step < args.steps:
        for x, y in loader:
            logits = model(x)
            loss = F.cross_entropy(logits, y, label_smoothing=0.05)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            step += 1
            if step % 20 == 0:
                acc = (logits.argmax(1) == y).float().mean().item()
                print(f"step {step} loss {loss.item():.4f} acc {acc:.3f} elapsed {time.time() - start:.2f}s", flush=True)
            if step >= args.steps:
                break


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=150)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--shards", type=int, default=32)
    p.add_argument("--per-shard", type=int, default=48)
    p.add_argument("--workers", type=int, default=2)
    args = p.parse_args()
    torch.manual_seed(0)
    folder = tempfile.mkdtemp(prefix="kws_")
    try:
        write_shards(folder, args.shards, args.per_shard)
        train(args, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
