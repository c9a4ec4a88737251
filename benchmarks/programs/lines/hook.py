"""A hook that looks at a gradient with NumPy in each backward pass."""

import numpy as np
import torch
from torch import nn

histogram = np.zeros(64)


def watch(gradient):
    values = gradient.numpy().ravel()
    counts, _ = np.histogram(values, 64)  # @histogram
    histogram[:] += counts


torch.manual_seed(0)
first, second = nn.Linear(768, 768), nn.Linear(768, 768)
parameters = [*first.parameters(), *second.parameters()]
optimizer = torch.optim.SGD(parameters, 0.01)
inputs = torch.randn(256, 768)
for _ in range(120):
    optimizer.zero_grad()
    hidden = first(inputs).relu()  # @first
    hidden.register_hook(watch)
    loss = second(hidden).square().mean()  # @second
    loss.backward()  # @backward
    optimizer.step()  # @optimizer
