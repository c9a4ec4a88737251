"""A training that ends with an exception."""

import torch
from torch import nn

torch.manual_seed(32)
model = nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)


def check(loss, step):
    if step == 39:
        raise FloatingPointError(f"loss {loss.item()!r} in step {step}")


for step in range(60):
    x = torch.randn(256, 64)
    loss = (model(x) - x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item(), flush=True)
    check(loss, step)
