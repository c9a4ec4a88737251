"""Clipped gradients, a moving average of all parameters, and a metric with NumPy in each step."""

import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 128))
average = [p.detach().clone() for p in model.parameters()]
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
inputs, labels = torch.randn(256, 512), torch.randint(0, 128, (256,))
for _ in range(120):
    optimizer.zero_grad()
    scores = model(inputs)  # @model
    loss = nn.functional.cross_entropy(scores, labels)  # @loss
    loss.backward()  # @backward
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # @clip
    optimizer.step()  # @optimizer
    for mean, parameter in zip(average, model.parameters(), strict=True):
        mean.lerp_(parameter.detach(), 0.01)  # @average
    ranks = np.argsort(-scores.detach().numpy(), axis=1)  # @ranks
    best = float((ranks[:, 0] == labels.numpy()).mean())
