"""Keyword spotting on synthetic one-second clips: log-mel front end + small CNN."""
import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

SAMPLE_RATE = 16000
CLASSES = 10


def hz_to_mel(hz):
    return 2595.0 * math.log10(1.0 + hz / 700.0)


def mel_to_hz(mel):
    return 700.0 * (10.0 ** (mel / 2595.0) - 1.0)


def mel_filterbank(n_mels, n_fft, sample_rate, f_min=20.0, f_max=None):
    f_max = f_max or sample_rate / 2
    lo, hi = hz_to_mel(f_min), hz_to_mel(f_max)
    points = [mel_to_hz(lo + (hi - lo) * i / (n_mels + 1)) for i in range(n_mels + 2)]
    bins = [p * n_fft / sample_rate for p in points]
    freqs = torch.arange(n_fft // 2 + 1, dtype=torch.float32)
    fb = torch.zeros(n_fft // 2 + 1, n_mels)
    for m in range(1, n_mels + 1):
        left, center, right = bins[m - 1], bins[m], bins[m + 1]
        up = (freqs - left) / (center - left)
        down = (right - freqs) / (right - center)
        fb[:, m - 1] = torch.clamp(torch.minimum(up, down), min=0.0)
    return fb


class LogMel(nn.Module):
    def __init__(self, n_mels=80, n_fft=1024, hop=320):
        super().__init__()
        self.n_mels, self.n_fft, self.hop = n_mels, n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft))
        self.register_buffer("fb", mel_filterbank(n_mels, n_fft, SAMPLE_RATE))

    def forward(self, wav):
        spec = torch.stft(wav, self.n_fft, self.hop, window=self.window, return_complex=True).abs().pow(2)
        mel = torch.matmul(spec.transpose(1, 2), self.fb)
        return torch.log(mel + 1e-6).transpose(1, 2).unsqueeze(1)


class KWSNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.frontend = LogMel()
        self.net = nn.Sequential(
            nn.BatchNorm2d(1),
            nn.Conv2d(1, 12, 5, stride=2, padding=2), nn.ReLU(),
            nn.Conv2d(12, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, CLASSES),
        )

    def forward(self, wav):
        return self.net(self.frontend(wav))


def make_clips(n, seed):
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(SAMPLE_RATE) / SAMPLE_RATE
    y = torch.randint(0, CLASSES, (n,), generator=g)
    f0 = 200.0 + 150.0 * y.float() + 20.0 * torch.randn(n, generator=g)
    sweep = 300.0 * (y % 3).float()
    phase = 2 * math.pi * (f0[:, None] * t + 0.5 * sweep[:, None] * t ** 2)
    return torch.sin(phase) + 0.5 * torch.randn(n, SAMPLE_RATE, generator=g), y


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=3200)
    p.add_argument("--batch", type=int, default=12)
    p.add_argument("--clips", type=int, default=1000)
    p.add_argument("--lr", type=float, default=1e-3)
    args = p.parse_args()
    torch.manual_seed(0)

    wav, y = make_clips(args.clips, 0)
    test_wav, test_y = make_clips(200, 1)
    model = KWSNet()
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)

    perm, cursor = torch.randperm(args.clips), 0
    for step in range(1, args.steps + 1):
        if cursor + args.batch > args.clips:
            perm, cursor = torch.randperm(args.clips), 0
        idx = perm[cursor:cursor + args.batch]
        cursor += args.batch
        loss = F.cross_entropy(model(wav[idx]), y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)

    model.eval()
    with torch.no_grad():
        acc = (model(test_wav).argmax(1) == test_y).float().mean().item()
    print(f"test accuracy {acc:.3f}")


if __name__ == "__main__":
    main()
