"""Pitch and decay estimation from plucked-string recordings (synthetic)."""
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

RATE = 8000
LENGTH = 8192
STEPS = 300
BATCH = 16


class PluckedStrings:
    """Damped harmonic tones: pitch in midi numbers, decay time in seconds."""

    def __init__(self, count, seed):
        self.gen = torch.Generator().manual_seed(seed)
        self.midi = torch.randint(45, 69, (count,), generator=self.gen)
        self.decay = 0.004 + 0.012 * torch.rand(count, generator=self.gen)
        self.waves = self._render()

    def _render(self):
        t = torch.arange(LENGTH) / RATE
        f0 = 440.0 * 2.0 ** ((self.midi.float() - 69) / 12)
        env = torch.exp(-t[None] / self.decay[:, None])
        out = torch.zeros(len(f0), LENGTH)
        for k in range(1, 6):
            phase = 6.2832 * torch.rand(len(f0), 1, generator=self.gen)
            out += torch.sin(6.2832 * k * f0[:, None] * t + phase) / k
        return out * env

    def batch(self, n):
        i = torch.randint(0, len(self.midi), (n,), generator=self.gen)
        return self.waves[i], self.midi[i] - 45, self.decay[i] * 100


class PluckNet(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.front = nn.Conv1d(1, width, 64, stride=4, padding=30, bias=False)
        self.mid = nn.Conv1d(width, width, 9, stride=2, padding=4, bias=False)
        self.last = nn.Conv1d(width, 2 * width, 9, stride=4, padding=4, bias=False)
        self.pitch = nn.Linear(2 * width, 24)
        self.decay = nn.Linear(2 * width, 1)

    def forward(self, wave):
        x = F.relu(self.front(wave[:, None]))
        x = F.relu(self.mid(x))
        x = F.relu(self.last(x))
        x = torch.log1p(100 * x.mean(2))
        return self.pitch(x), self.decay(x)[:, 0]


def losses(model, wave, pitch, decay):
    logits, d = model(wave)
    ce = F.cross_entropy(logits, pitch)
    return ce + F.mse_loss(d, decay), (logits.argmax(1) == pitch).float().mean()


def main():
    torch.manual_seed(0)
    data = PluckedStrings(512, seed=1)
    model = PluckNet()
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    start = time.time()
    for step in range(1, STEPS + 1):
        wave, pitch, decay = data.batch(BATCH)
        loss, acc = losses(model, wave, pitch, decay)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 30 == 0:
            print(f"step {step:4d} loss {loss.item():.4f} acc {acc.item():.2f} "
                  f"time {time.time() - start:.2f}s", flush=True)


if __name__ == "__main__":
    main()
