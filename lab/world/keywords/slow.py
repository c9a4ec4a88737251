"""Train a keyword spotter on log-mel features of half-second clips.

Clips are synthetic: every keyword is a pair of gliding tones in noise. Features are computed in
the dataset after a random time shift, so each epoch sees every clip a little different.
"""

import math
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

RATE = 16000
SAMPLES = RATE // 2
KEYWORDS = 8
BATCH = 16
EPOCHS = 6


def synthesize(label, generator):
    """Two tones whose frequencies glide in a way typical of the keyword."""
    t = torch.arange(SAMPLES) / RATE
    low = 250 + 60 * label + 20 * torch.rand(1, generator=generator)
    high = 2600 - 180 * label + 40 * torch.rand(1, generator=generator)
    glide = 200 * (1 if label % 2 else -1)
    wave = torch.sin(2 * math.pi * (low * t + 0.5 * glide * t * t))
    wave = wave + 0.6 * torch.sin(2 * math.pi * (high * t - glide * t * t))
    return wave + 0.8 * torch.randn(SAMPLES, generator=generator)


def hz_to_mel(hz):
    return 2595.0 * math.log10(1.0 + hz / 700.0)


def mel_to_hz(mel):
    return 700.0 * (10.0 ** (mel / 2595.0) - 1.0)


class LogMel:
    """Log-mel spectrogram with triangular filters of equal height."""

    def __init__(self, n_fft=400, hop=160, n_mels=40, low=20.0, high=7600.0):
        self.n_fft, self.hop = n_fft, hop
        self.window = torch.hann_window(n_fft)
        self.filters = self.triangles(n_fft // 2 + 1, n_mels, low, high)

    @staticmethod
    def triangles(bins, n_mels, low, high):
        freqs = torch.linspace(0, RATE / 2, bins)
        mels = torch.linspace(hz_to_mel(low), hz_to_mel(high), n_mels + 2)
        edges = [mel_to_hz(m.item()) for m in mels]
        rows = []
        for left, centre, right in zip(edges, edges[1:], edges[2:]):
            rising = (freqs - left) / (centre - left)
            falling = (right - freqs) / (right - centre)
            rows.append(torch.minimum(rising, falling).clamp(min=0))
        return torch.stack(rows)

    def __call__(self, wave):
        spec = torch.stft(wave, self.n_fft, self.hop, window=self.window, return_complex=True)
        power = spec.real**2 + spec.imag**2
        return (self.filters @ power + 1e-6).log()


class KeywordDataset(Dataset):
    def __init__(self, count, seed, max_shift=800):
        generator = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(KEYWORDS, (count,), generator=generator)
        self.waves = torch.stack([synthesize(int(k), generator) for k in self.labels])
        self.max_shift = max_shift

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        wave = self.waves[index]
        if self.max_shift:
            wave = wave.roll(int(torch.randint(-self.max_shift, self.max_shift + 1, ())))
        features = LogMel(n_mels=40)(wave)
        features = (features - features.mean()) / (features.std() + 1e-5)
        return features.unsqueeze(0), self.labels[index]


class SpotterNet(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.stem = nn.Conv2d(1, width, 5, stride=2, padding=2)
        self.convs = nn.ModuleList([nn.Conv2d(width, width, 3, padding=1) for _ in range(3)])
        self.norms = nn.ModuleList([nn.BatchNorm2d(width) for _ in range(3)])
        self.head = nn.Linear(width, KEYWORDS)

    def forward(self, x):
        x = F.relu(self.stem(x))
        for conv, norm in zip(self.convs, self.norms):
            x = x + F.relu(norm(conv(x)))
        return self.head(x.mean((2, 3)))


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    hits = total = 0
    for features, labels in loader:
        hits += (model(features).argmax(1) == labels).sum().item()
        total += len(labels)
    model.train()
    return hits / total


def main():
    torch.manual_seed(0)
    train = DataLoader(KeywordDataset(960, seed=1), batch_size=BATCH, shuffle=True)
    valid = DataLoader(KeywordDataset(96, seed=2, max_shift=0), batch_size=32)
    model = SpotterNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    times = []
    for epoch in range(1, EPOCHS + 1):
        start = time.perf_counter()
        running = torch.zeros(())
        for features, labels in train:
            loss = F.cross_entropy(model(features), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            running += loss.detach()
            now = time.perf_counter()
            times.append(now - start)
            start = now
        print(
            f"epoch {epoch}  loss {running.item() / len(train):.4f}  "
            f"val accuracy {evaluate(model, valid):.3f}"
        )

    rest = sorted(times[30:])
    print(
        f"median step {1000 * rest[len(rest) // 2]:.2f} ms  "
        f"mean {1000 * sum(rest) / len(rest):.2f} ms"
    )


if __name__ == "__main__":
    main()
