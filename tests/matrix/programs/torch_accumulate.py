"""Gradients of four batches per update; the script exits with a status of its own."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ACCUMULATE = 4

torch.manual_seed(26)
inputs = torch.randn(1280, 96)
loader = DataLoader(TensorDataset(inputs, inputs.cumsum(1)), batch_size=8, shuffle=True)
model = nn.Sequential(nn.Linear(96, 192), nn.Tanh(), nn.Linear(192, 96))
optimizer = torch.optim.NAdam(model.parameters(), lr=2e-3)

running = 0.0
for number, (x, y) in enumerate(loader, start=1):
    loss = nn.functional.l1_loss(model(x), y) / ACCUMULATE
    loss.backward()
    running += loss.item()
    if number % ACCUMULATE == 0:
        optimizer.step()
        optimizer.zero_grad()
        if number % 20 == 0:
            print(number // ACCUMULATE, running)
        running = 0.0

if loss.item() > 0.1:
    print("not good enough", file=sys.stderr)
    sys.exit(3)
