"""Layers of different widths, each run by a line of its own."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.narrow, self.wide = nn.Linear(512, 256), nn.Linear(256, 2048)
        self.deep = nn.Sequential(nn.Linear(2048, 512), nn.GELU(), nn.Linear(512, 512))

    def forward(self, x):
        x = self.narrow(x).relu()  # @narrow
        x = self.wide(x).tanh()  # @wide
        return self.deep(x)  # @deep


torch.manual_seed(0)
model = Model()
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
inputs, targets = torch.randn(512, 512), torch.randn(512, 512)
for _ in range(120):
    optimizer.zero_grad()
    outputs = model(inputs)
    loss = (outputs - targets).square().mean()  # @loss
    loss.backward()  # @backward
    optimizer.step()  # @optimizer
