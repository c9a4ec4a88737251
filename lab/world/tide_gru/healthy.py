"""Probabilistic one-step forecast of water level with a recurrent network."""
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

HISTORY = 64
FEATURES = 5
BATCH = 64
STEPS = 400


def make_stations(stations=40, hours=2000, seed=5):
    gen = torch.Generator().manual_seed(seed)
    t = torch.arange(hours, dtype=torch.float32)
    period = torch.tensor([12.42, 12.0, 25.82, 23.93])
    amp = torch.rand(stations, 4, generator=gen) * torch.tensor([1.0, 0.4, 0.3, 0.3])
    phase = 6.2832 * torch.rand(stations, 4, generator=gen)
    tide = (amp[..., None] * torch.cos(6.2832 * t / period[:, None] + phase[..., None])).sum(1)
    wind = torch.randn(stations, hours, generator=gen)
    for k in range(1, hours):
        wind[:, k] = 0.95 * wind[:, k - 1] + 0.31 * wind[:, k]
    level = tide + 0.15 * wind + 0.03 * torch.randn(stations, hours, generator=gen)
    clock = torch.stack([torch.sin(6.2832 * t / 24), torch.cos(6.2832 * t / 24)])
    pressure = -wind + 0.2 * torch.randn(stations, hours, generator=gen)
    rows = [level, wind, pressure, *clock[:, None].expand(2, stations, hours)]
    return torch.stack(rows, 2)


class Sampler:
    def __init__(self, table, seed):
        self.windows = table.unfold(1, HISTORY + 1, 1)
        self.gen = torch.Generator().manual_seed(seed)

    def draw(self, n):
        s = torch.randint(0, self.windows.shape[0], (n,), generator=self.gen)
        t = torch.randint(0, self.windows.shape[1], (n,), generator=self.gen)
        w = self.windows[s, t].transpose(1, 2)
        return w[:, :-1], w[:, 1:, 0]


class TideNet(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.inp = nn.Linear(FEATURES, 32)
        self.rnn = nn.GRU(32, hidden, num_layers=2, batch_first=True)
        self.out = nn.Linear(hidden, 2)

    def forward(self, x):
        h, _ = self.rnn(torch.relu(self.inp(x)))
        mean, spread = self.out(h).unbind(2)
        return x[..., 0] + mean, F.softplus(spread) + 1e-3


def main():
    torch.manual_seed(5)
    table = make_stations()
    train, test = Sampler(table[:, :1600], 1), Sampler(table[:, 1600:], 2)
    model = TideNet()
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    start = time.time()
    for step in range(1, STEPS + 1):
        x, y = train.draw(BATCH)
        mean, spread = model(x)
        loss = F.gaussian_nll_loss(mean, y, spread.square())
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        if step % 50 == 0:
            with torch.inference_mode():
                x, y = test.draw(128)
                err = (model(x)[0] - y).abs().mean().item()
            print(f"step {step:4d} loss {loss.item():.4f} test {err:.4f} "
                  f"time {time.time() - start:.2f}s", flush=True)


if __name__ == "__main__":
    main()
