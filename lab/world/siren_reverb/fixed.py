"""Emergency-vehicle siren detection in street noise; log-spectrogram CRNN, plain PyTorch loop."""
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

RATE = 8000
CLIP = RATE
CLASSES = ["street", "wail", "yelp", "hilo"]


def siren(kind, rng):
    t = np.arange(CLIP) / RATE
    if kind == 1:      # wail: slow sweep
        f = 900 + 350 * np.sin(2 * np.pi * 0.3 * t + rng.uniform(0, 6))
    elif kind == 2:    # yelp: fast sweep
        f = 900 + 350 * np.sin(2 * np.pi * 3.0 * t + rng.uniform(0, 6))
    else:              # hi-lo: two tones
        f = np.where((t * 1.2 + rng.uniform(0, 1)) % 1 < 0.5, 660, 880)
    phase = 2 * np.pi * np.cumsum(f * rng.uniform(0.95, 1.05)) / RATE
    return np.sin(phase) + 0.3 * np.sin(2 * phase)


def street(rng):
    spectrum = np.fft.rfft(rng.standard_normal(CLIP))
    spectrum /= np.sqrt(1 + np.arange(len(spectrum)) / 40)
    noise = np.fft.irfft(spectrum, CLIP)
    return noise / noise.std()


class StreetClips(Dataset):
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.labels = rng.integers(0, len(CLASSES), n)
        clips = [street(rng) + (rng.uniform(0.15, 0.6) * siren(k, rng) if k else 0) for k in self.labels]
        self.clips = torch.from_numpy(np.stack(clips).astype(np.float32))

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.clips[i], int(self.labels[i])


def room_responses(n, seconds, seed):
    """Synthetic impulse responses between street walls: direct path, echoes, diffuse tail."""
    g = torch.Generator().manual_seed(seed)
    taps = int(seconds * RATE)
    t = torch.arange(taps) / RATE
    rt60 = 0.15 + 0.25 * torch.rand(n, 1, generator=g)
    tail = torch.randn(n, taps, generator=g) * 10 ** (-3 * t / rt60) * 0.05
    tail[:, 0] = 1.0
    for _ in range(4):
        at = torch.randint(40, taps // 3, (n, 1), generator=g)
        tail.scatter_(1, at, 0.3 * torch.rand(n, 1, generator=g))
    return tail / tail.norm(dim=1, keepdim=True)


class Reverb(nn.Module):
    """Convolves each clip of the batch with a random response."""

    def __init__(self, responses):
        super().__init__()
        self.register_buffer("responses", responses)

    def forward(self, wave):
        taps = self.responses.shape[1]
        pick = torch.randint(len(self.responses), (len(wave),))
        size = 1 << (wave.shape[1] + taps - 2).bit_length()
        product = torch.fft.rfft(wave, size) * torch.fft.rfft(self.responses[pick], size)
        return torch.fft.irfft(product, size)[:, :wave.shape[1]]


class LogSpectrogram(nn.Module):
    def __init__(self, n_fft=256, hop=160):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft))

    def forward(self, wave):
        spec = torch.stft(wave, self.n_fft, self.hop, window=self.window, return_complex=True)
        power = spec.real.square() + spec.imag.square()
        x = torch.log(power[:, 1:97] + 1e-5)
        return ((x - x.mean((1, 2), keepdim=True)) / x.std((1, 2), keepdim=True))[:, None]


class CRNN(nn.Module):
    def __init__(self, classes, width=12):
        super().__init__()
        layers, c = [], 1
        for out in (width, 2 * width, 2 * width):
            layers += [nn.Conv2d(c, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU(), nn.MaxPool2d((4, 2) if c == 1 else (2, 2))]
            c = out
        self.conv = nn.Sequential(*layers)
        self.gru = nn.GRU(c * 6, 48, batch_first=True, bidirectional=True)
        self.out = nn.Linear(96, classes)

    def forward(self, x):
        x = self.conv(x).flatten(1, 2).transpose(1, 2)
        x, _ = self.gru(x)
        return self.out(x.mean(1))


def train(epochs=4, batch=12, lr=1e-3):
    torch.manual_seed(2)
    loader = DataLoader(StreetClips(360, seed=2), batch, shuffle=True, drop_last=True)
    reverb, features = Reverb(room_responses(64, 0.4, seed=9)), LogSpectrogram()
    model = CRNN(len(CLASSES))
    opt = torch.optim.AdamW(model.parameters(), lr=lr)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 3 * lr, total_steps=epochs * len(loader))
    times = [time.perf_counter()]
    for epoch in range(epochs):
        model.train()
        loss_sum, hits = torch.zeros(()), torch.zeros(())
        for wave, label in loader:
            with torch.no_grad():
                x = features(reverb(wave))
            logits = model(x)
            loss = F.cross_entropy(logits, label)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            sched.step()
            loss_sum += loss.detach()
            hits += (logits.argmax(1) == label).sum()
            times.append(time.perf_counter())
        print(f"epoch {epoch}: loss {loss_sum.item() / len(loader):.3f} accuracy {hits.item() / (len(loader) * batch):.3f}")
    print(f"median step {1e3 * np.median(np.diff(times)):.1f} ms")


if __name__ == "__main__":
    train()
