"""12-lead ECG rhythm classification with a small 1-D ResNet (PTB-XL style).

The recordings live in one HDF5 file (int16, gzip), which does not have to fit
into memory; the Dataset opens it lazily and reads one recording at a time.
"""
import os
import tempfile
import time

import h5py
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

N_RECORDS = 1200
N_LEADS = 12
LENGTH = 1000          # 10 s at 100 Hz
N_CLASSES = 4
BATCH_SIZE = 16
EPOCHS = 2


def synth_ecg(rng, label):
    """A crude ECG: spikes at a class dependent rate plus baseline wander."""
    t = np.arange(LENGTH) / 100.0
    rate = [1.0, 1.6, 0.7, 1.2][label]
    jitter = 0.25 if label == 3 else 0.02
    beats = np.cumsum(1.0 / rate * (1 + jitter * rng.standard_normal(int(12 * rate) + 1)))
    sig = np.zeros(LENGTH)
    for b in beats:
        sig += np.exp(-((t - b) / 0.02) ** 2) + 0.25 * np.exp(-((t - b - 0.25) / 0.06) ** 2)
    gains = rng.uniform(0.4, 1.4, (N_LEADS, 1))
    wander = 0.2 * np.sin(2 * np.pi * 0.3 * t + rng.uniform(0, 6.28, (N_LEADS, 1)))
    x = gains * sig + wander + 0.05 * rng.standard_normal((N_LEADS, LENGTH))
    return (x * 1000).astype(np.int16)


def write_h5(path, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, N_CLASSES, N_RECORDS)
    block = 60
    with h5py.File(path, "w") as f:
        sig = f.create_dataset(
            "signals", (N_RECORDS, N_LEADS, LENGTH), dtype="int16",
            chunks=(1, N_LEADS, LENGTH), compression="gzip", shuffle=True)
        f.create_dataset("labels", data=labels)
        for start in range(0, N_RECORDS, block):
            sig[start:start + block] = np.stack(
                [synth_ecg(rng, y) for y in labels[start:start + block]])


class ECGDataset(Dataset):
    def __init__(self, path):
        self.path = path
        self.file = None
        with h5py.File(path, "r") as f:
            self.labels = f["labels"][:]

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        if self.file is None:
            self.file = h5py.File(self.path, "r")
        x = self.file["signals"][i].astype(np.float32) / 1000.0
        x = (x - x.mean(axis=1, keepdims=True)) / (x.std(axis=1, keepdims=True) + 1e-6)
        return torch.from_numpy(x), int(self.labels[i])


class Block(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv1d(cin, cout, 7, stride, 3, bias=False)
        self.bn1 = nn.BatchNorm1d(cout)
        self.conv2 = nn.Conv1d(cout, cout, 7, 1, 3, bias=False)
        self.bn2 = nn.BatchNorm1d(cout)
        self.skip = nn.Conv1d(cin, cout, 1, stride, bias=False)

    def forward(self, x):
        h = torch.relu(self.bn1(self.conv1(x)))
        h = self.bn2(self.conv2(h))
        return torch.relu(h + self.skip(x))


class ECGNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv1d(N_LEADS, 32, 15, 2, 7, bias=False),
                                  nn.BatchNorm1d(32), nn.ReLU())
        self.blocks = nn.Sequential(Block(32, 32, 2), Block(32, 64, 2), Block(64, 96, 2))
        self.head = nn.Linear(96, N_CLASSES)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean(-1))


def main():
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "ecg.h5")
        write_h5(path)
        print(f"wrote {path}: {os.path.getsize(path) / 1e6:.1f} MB")

        loader = DataLoader(ECGDataset(path), batch_size=BATCH_SIZE, shuffle=True, drop_last=True)
        model = ECGNet()
        opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-2)
        sched = torch.optim.lr_scheduler.OneCycleLR(opt, 3e-3, total_steps=EPOCHS * len(loader))
        criterion = nn.CrossEntropyLoss()

        times = []
        last = time.perf_counter()
        for epoch in range(EPOCHS):
            model.train()
            correct = torch.zeros(())
            total = torch.zeros(())
            for x, y in loader:
                logits = model(x)
                loss = criterion(logits, y)
                opt.zero_grad(set_to_none=True)
                loss.backward()
                opt.step()
                sched.step()
                correct += (logits.argmax(1) == y).sum()
                total += loss.detach()
                now = time.perf_counter()
                times.append(now - last)
                last = now
            print(f"epoch {epoch}: loss {total.item() / len(loader):.4f} "
                  f"acc {correct.item() / (len(loader) * BATCH_SIZE):.3f}")
    print(f"ms per step: {np.median(times[10:]) * 1e3:.2f}")


if __name__ == "__main__":
    main()
