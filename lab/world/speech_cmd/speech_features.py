"""Toy 'keyword' audio and log-mel features (plain numpy)."""

import numpy as np

RATE = 8000


def synth(word, rng):
    """Half a second: two formant-like glides which depend on the word."""
    t = np.arange(RATE // 2) / RATE
    f0 = 300 + 90 * word + rng.normal(0, 15)
    f1 = 2600 - 150 * word + rng.normal(0, 30)
    glide = 1 + 0.25 * np.sin(2 * np.pi * (1 + word % 4) * t)
    env = np.exp(-((t - 0.25 + rng.normal(0, 0.03)) ** 2) / 0.02)
    wave = env * (np.sin(2 * np.pi * f0 * glide * t) + 0.5 * np.sin(2 * np.pi * f1 * t))
    return wave + 0.3 * rng.standard_normal(t.size)


def mel_bank(n_mels, n_fft):
    mel = lambda f: 2595 * np.log10(1 + f / 700)
    pts = 700 * (10 ** (np.linspace(mel(60), mel(RATE / 2), n_mels + 2) / 2595) - 1)
    freqs = np.linspace(0, RATE / 2, n_fft // 2 + 1)
    lo, mid, hi = pts[:-2, None], pts[1:-1, None], pts[2:, None]
    return np.clip(np.minimum((freqs - lo) / (mid - lo), (hi - freqs) / (hi - mid)), 0, None)


def log_mel(waves, n_mels=40, n_fft=256, hop=80):
    starts = np.arange(0, waves.shape[1] - n_fft, hop)
    frames = waves[:, starts[:, None] + np.arange(n_fft)] * np.hanning(n_fft)
    power = np.abs(np.fft.rfft(frames)) ** 2
    feats = np.log(power @ mel_bank(n_mels, n_fft).T + 1e-6)
    return (feats - feats.mean()) / feats.std()


def dataset(n, n_words=10, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_words, n)
    waves = np.stack([synth(w, rng) for w in labels])
    return log_mel(waves).transpose(0, 2, 1), labels
