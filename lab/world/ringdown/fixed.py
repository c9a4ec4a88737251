"""Classify structural defects from impact ring-down signals (simulated hammer test, 3 accelerometers)."""

import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

SEED = 11
N, CH, LENGTH, CLASSES = 4000, 3, 384, 5
EPOCHS, BATCH = 16, 64


def simulate(n=N):
    """sum of a few damped modes; stiff parts ring out long before the record ends"""
    rng = np.random.default_rng(SEED)
    t = np.linspace(0, 1, LENGTH)
    y = rng.integers(0, CLASSES, n)
    x = np.zeros((n, CH, LENGTH))
    for k in range(3):
        freq = (30 + 25 * k + 4 * y[:, None] + rng.normal(0, 2.0, (n, 1)))[:, :, None]
        damp = (rng.uniform(100, 140, (n, 1)) + 10 * k)[:, :, None]
        amp = rng.normal(1.0, 0.4, (n, CH))[:, :, None]
        phase = rng.uniform(0, 0.5, (n, CH))[:, :, None]
        x += amp * np.exp(-damp * t) * np.sin(2 * np.pi * freq * t + phase)
    return torch.from_numpy(x.astype(np.float32)), torch.from_numpy(y)


class ConvNet(nn.Module):
    def __init__(self, c=16):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv1d(CH, c, 15, stride=2, padding=7),
            nn.BatchNorm1d(c),
            nn.ReLU(),
            nn.Conv1d(c, c, 5, stride=2, padding=2),
            nn.BatchNorm1d(c),
            nn.ReLU(),
            nn.Conv1d(c, 2 * c, 5, stride=2, padding=2),
            nn.BatchNorm1d(2 * c),
            nn.ReLU(),
        )
        self.head = nn.Linear(2 * c, CLASSES)

    def forward(self, x):
        return self.head(self.features(x).mean(-1))


def accuracy(model, loader):
    model.eval()
    good = total = 0
    with torch.no_grad():
        for x, y in loader:
            good += (model(x).argmax(1) == y).sum().item()
            total += len(y)
    model.train()
    return good / total


def train():
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    full = TensorDataset(*simulate())
    train_set, test_set = random_split(
        full, [3200, 800], generator=torch.Generator().manual_seed(1)
    )
    train_loader = DataLoader(train_set, batch_size=BATCH, shuffle=True, drop_last=True)
    test_loader = DataLoader(test_set, batch_size=200)
    model = ConvNet()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    loss_fn = nn.CrossEntropyLoss(label_smoothing=0.05)
    spent, steps = 0.0, 0
    for epoch in range(EPOCHS):
        start, loss_sum = time.time(), 0.0
        for x, y in train_loader:
            opt.zero_grad()
            loss = loss_fn(model(x), y)
            loss.backward()
            opt.step()
            loss_sum += loss.item()
            steps += 1
        spent += time.time() - start
        print(
            "epoch %d: loss %.5f, test acc %.3f, %.2f ms/batch"
            % (
                epoch,
                loss_sum / len(train_loader),
                accuracy(model, test_loader),
                spent / steps * 1000,
            ),
            flush=True,
        )


if __name__ == "__main__":
    train()
