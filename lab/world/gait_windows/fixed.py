"""Activity recognition from wrist-worn sensors (accelerometer + gyro, 6 channels).

Recordings have irregular time stamps (~104 Hz with jitter and gaps), the network
wants 50 Hz windows of 2.56 s. num_workers makes it better but not good, and on
the laptop I have only two cores.
"""

import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

RATE = 50.0
WINDOW = 128
CHANNELS = 6
ACTIVITIES = ["sit", "walk", "run", "stairs", "cycle"]


class Recording:
    def __init__(self, rng, label):
        n = 9000
        dt = rng.normal(1 / 104.0, 0.0008, n).clip(0.002)
        dt[rng.integers(0, n, 20)] += 0.1
        self.t = np.cumsum(dt)
        base = [0.1, 1.8, 2.9, 1.4, 1.1][label]
        arr = np.empty((n, CHANNELS), np.int16)
        for c in range(CHANNELS):
            wave = np.sin(2 * np.pi * base * self.t + rng.uniform(0, 6))
            wave += 0.4 * np.sin(4 * np.pi * base * self.t + rng.uniform(0, 6))
            arr[:, c] = 2000 * (wave + rng.normal(0, 0.7, n))
        self.raw = arr
        self.label = label

    @property
    def seconds(self):
        return self.t[-1] - self.t[0]


def to_units(raw):
    return raw.astype(np.float64) / 2048.0


def regular_grid(t, rate=RATE):
    return np.arange(t[0], t[-1], 1.0 / rate)


def resample(t, values, grid):
    cols = [np.interp(grid, t, values[:, c]) for c in range(values.shape[1])]
    return np.stack(cols, axis=1)


def read_signal(rec):
    return resample(rec.t, to_units(rec.raw), regular_grid(rec.t))


class Windows(Dataset):
    def __init__(self, recordings, hop=48):
        self.recordings = recordings
        self.signals = [read_signal(rec) for rec in recordings]
        self.index = []
        for r, rec in enumerate(recordings):
            n = len(regular_grid(rec.t))
            self.index += [(r, s) for s in range(0, n - WINDOW, hop)]

    def __len__(self):
        return len(self.index)

    def __getitem__(self, i):
        r, start = self.index[i]
        rec = self.recordings[r]
        x = self.signals[r][start : start + WINDOW]
        x = x - x.mean(0)
        return torch.from_numpy(x.T.astype(np.float32)), rec.label


class ConvNet(nn.Sequential):
    def __init__(self, width=24):
        super().__init__(
            nn.Conv1d(CHANNELS, width, 7, padding=3),
            nn.ReLU(),
            nn.Conv1d(width, width, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool1d(2),
            nn.Conv1d(width, 2 * width, 5, padding=2),
            nn.ReLU(),
            nn.AdaptiveAvgPool1d(1),
            nn.Flatten(),
            nn.Linear(2 * width, len(ACTIVITIES)),
        )


def forever(loader):
    while True:
        yield from loader


def train(steps=100, batch=24):
    rng = np.random.default_rng(11)
    torch.manual_seed(11)
    recs = [Recording(rng, k % len(ACTIVITIES)) for k in range(30)]
    data = Windows(recs)
    print(
        f"{len(recs)} recordings, {sum(r.seconds for r in recs) / 60:.1f} min, {len(data)} windows"
    )
    loader = DataLoader(data, batch_size=batch, shuffle=True, drop_last=True)
    net = ConvNet()
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()
    it = forever(loader)
    durations = []
    for step in range(steps):
        tic = time.perf_counter()
        x, y = next(it)
        opt.zero_grad()
        loss = criterion(net(x), y)
        loss.backward()
        opt.step()
        durations.append(time.perf_counter() - tic)
        if step % 20 == 0:
            print(f"{step:4d}  loss {loss.item():.3f}")
    print(f"median step {1e3 * np.median(durations[10:]):.2f} ms")


if __name__ == "__main__":
    train()
