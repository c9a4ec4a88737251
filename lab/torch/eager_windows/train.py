"""Trains a forecast of a time series on windows of it."""

import argparse
import statistics
import time

import numpy as np
import torch
from series import measured
from torch import nn
from torch.utils.data import DataLoader, Dataset

PAST, FUTURE = 96, 24


class Windows(Dataset):
    """All windows of a series, without the linear trend of their past and scaled by its spread."""

    def __init__(self, series):
        self.samples = []
        time = np.arange(PAST + FUTURE)
        for start in range(len(series) - PAST - FUTURE + 1):
            window = series[start : start + PAST + FUTURE]
            slope, offset = np.polyfit(time[:PAST], window[:PAST], 1)
            level = window - slope * time - offset
            low, high = np.percentile(level[:PAST], [25, 75])
            self.samples.append(torch.tensor(level / (high - low), dtype=torch.float32))

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, i):
        return self.samples[i][:PAST], self.samples[i][PAST:]


class LazyWindows(Dataset):
    """The same windows, made when a batch asks for them."""

    def __init__(self, series):
        # A view of the series, which takes neither time nor memory.
        self.windows = np.lib.stride_tricks.sliding_window_view(series, PAST + FUTURE)
        terms = np.stack([np.arange(PAST + FUTURE), np.ones(PAST + FUTURE)])
        self.trend_of = np.linalg.pinv(terms[:, :PAST]) @ terms

    def __len__(self):
        return len(self.windows)

    def __getitems__(self, indices):
        windows = self.windows[indices]
        level = windows - windows[:, :PAST] @ self.trend_of
        low, high = np.percentile(level[:, :PAST], [25, 75], axis=1, keepdims=True)
        scaled = torch.from_numpy(level / (high - low)).float()
        return list(zip(scaled[:, :PAST], scaled[:, PAST:], strict=True))


class Forecast(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.encoder = nn.Linear(PAST, width)
        self.blocks = nn.ModuleList([nn.Linear(width, width) for _ in range(12)])
        self.output = nn.Linear(width, FUTURE)

    def forward(self, past):
        hidden = self.encoder(past)
        for block in self.blocks:
            hidden = hidden + block(nn.functional.gelu(hidden))
        return self.output(hidden)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=1400)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--lazy", action="store_true", help="make windows for each batch")
    options = parser.parse_args()

    torch.manual_seed(0)
    series = measured(options.days)
    data = LazyWindows(series) if options.lazy else Windows(series)
    loader = DataLoader(data, options.batch, shuffle=True, num_workers=1)
    model = Forecast(options.width)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loss_of = nn.MSELoss()

    times, batches = [], iter(loader)
    for step in range(options.steps):
        begin = time.perf_counter()
        past, future = next(batches)
        optimizer.zero_grad()
        loss = loss_of(model(past), future)
        loss.backward()
        optimizer.step()
        times.append(time.perf_counter() - begin)
        if step % 50 == 49:
            print(f"step {step + 1}  loss {loss.item():.3f}", flush=True)
    print(f"step: median {1e3 * statistics.median(times):.1f} ms")


if __name__ == "__main__":
    main()
