"""The model."""

from torch import nn


def build(width):
    return nn.Sequential(nn.Linear(48, width), nn.ReLU(), nn.Linear(width, 6))
