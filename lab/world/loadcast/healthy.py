"""Forecast the next day of hourly power load from the past week with a GRU in PyTorch.

Load curves of 40 synthetic substations with daily and weekly cycles and weather noise. Windows
are cut from one tensor; quantile loss for the 10 %, 50 % and 90 % quantiles.
"""

import math
import time

import torch
from torch import nn

STATIONS = 40
HOURS = 24 * 7 * 40
PAST, AHEAD = 168, 24
BATCH = 32
STEPS = 400
QUANTILES = (0.1, 0.5, 0.9)


def make_load(generator):
    t = torch.arange(HOURS, dtype=torch.float32)
    phase = torch.rand(STATIONS, 1, generator=generator)
    daily = torch.sin(2 * math.pi * (t / 24 + 0.2 * phase))
    weekly = 0.5 * torch.sin(2 * math.pi * (t / 168 + 0.1 * phase))
    noise = torch.randn(STATIONS, HOURS, generator=generator)
    kernel = torch.exp(-torch.arange(12.0) / 4)
    weather = nn.functional.conv1d(noise[:, None], kernel[None, None], padding="same")[:, 0]
    load = daily + weekly + 0.15 * weather
    return (load - load.mean(1, keepdim=True)) / load.std(1, keepdim=True)


class WindowSampler:
    """Draws random windows out of the stations' series in one indexing operation."""

    def __init__(self, load, first, last, generator):
        self.load, self.first, self.last = load, first, last
        self.generator = generator
        self.offsets = torch.arange(PAST + AHEAD)

    def draw(self, count):
        high = self.last - PAST - AHEAD
        station = torch.randint(STATIONS, (count, 1), generator=self.generator)
        begin = torch.randint(self.first, high, (count, 1), generator=self.generator)
        window = self.load[station, begin + self.offsets]
        hour = ((begin + self.offsets[:PAST]) % 24).float() * (2 * math.pi / 24)
        past = torch.stack([window[:, :PAST], hour.sin(), hour.cos()], dim=-1)
        return past, window[:, PAST:]


class Forecaster(nn.Module):
    def __init__(self, hidden=48):
        super().__init__()
        self.patch = nn.Conv1d(3, hidden, kernel_size=4, stride=4)
        self.rnn = nn.GRU(hidden, hidden, batch_first=True)
        self.head = nn.Sequential(
            nn.Linear(hidden, 128), nn.ReLU(), nn.Linear(128, AHEAD * len(QUANTILES))
        )

    def forward(self, past):
        patches = torch.relu(self.patch(past.transpose(1, 2))).transpose(1, 2)
        _, last = self.rnn(patches)
        return self.head(last[-1]).view(-1, AHEAD, len(QUANTILES))


class QuantileLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("q", torch.tensor(QUANTILES))

    def forward(self, forecast, target):
        error = target.unsqueeze(-1) - forecast
        return torch.maximum(self.q * error, (self.q - 1) * error).mean()


@torch.no_grad()
def validate(model, criterion, batches):
    model.eval()
    total = sum(criterion(model(past), target) for past, target in batches)
    model.train()
    return total.item() / len(batches)


def main():
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(4)
    load = make_load(generator)
    cut = int(0.85 * HOURS)
    train = WindowSampler(load, 0, cut, generator)
    held_out = WindowSampler(load, cut, HOURS, generator)
    valid_batches = [held_out.draw(128) for _ in range(4)]
    model, criterion = Forecaster(), QuantileLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=STEPS)

    times = []
    running = torch.zeros(())
    for step in range(1, STEPS + 1):
        start = time.perf_counter()
        past, target = train.draw(BATCH)
        loss = criterion(model(past), target)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        running += loss.detach()
        times.append(time.perf_counter() - start)
        if step % 100 == 0:
            print(
                f"step {step:4d}  loss {running.item() / 100:.4f}  "
                f"val {validate(model, criterion, valid_batches):.4f}"
            )
            running.zero_()

    rest = sorted(times[30:])
    print(
        f"median step {1000 * rest[len(rest) // 2]:.2f} ms  "
        f"mean {1000 * sum(rest) / len(rest):.2f} ms"
    )


if __name__ == "__main__":
    main()
