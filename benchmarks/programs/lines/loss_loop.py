"""A loss that goes through the rows of a batch one by one."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(512, 512)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
inputs = torch.randn(48, 512)


def contrast(rows):
    total = torch.zeros(())
    for number in range(1, len(rows)):
        total = total + (rows[number] - rows[number - 1]).abs().mean()  # @rows
    return total / len(rows)


for _ in range(120):
    optimizer.zero_grad()
    rows = model(inputs).tanh()  # @model
    loss = contrast(rows)
    loss.backward()  # @backward
    optimizer.step()  # @optimizer
