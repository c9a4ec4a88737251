"""A series of measurements, one every ten minutes, with a daily and a yearly rhythm."""

import numpy as np

PER_DAY = 144


def measured(days):
    """The measurements of some days."""
    time = np.arange(days * PER_DAY) / PER_DAY
    noise = np.random.default_rng(0).normal(size=time.shape)
    daily, yearly = np.sin(2 * np.pi * time), np.cos(2 * np.pi * time / 365)
    return 15 + 4 * daily - 9 * yearly + 0.5 * noise
