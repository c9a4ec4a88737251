"""A data set that makes each sample in Python, and a loader without workers."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Sounds(Dataset):
    def __init__(self):
        self.waves = np.random.default_rng(0).normal(size=(256, 2048)).astype("f4")

    def __len__(self):
        return 4096

    def __getitem__(self, index):
        wave = self.waves[index % 256]
        spectrum = np.abs(np.fft.rfft(wave))[:1024]  # @spectrum
        scaled = np.log1p(spectrum) / np.log1p(spectrum).max()  # @scaled
        return scaled.astype("f4")


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 256))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for _ in range(2):
    for batch in DataLoader(Sounds(), 64):
        optimizer.zero_grad()
        loss = model(batch).square().mean()  # @model
        loss.backward()  # @backward
        optimizer.step()  # @optimizer
