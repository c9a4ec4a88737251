"""A checkpointed block that PyTorch runs again within the backward pass, the reentrant way."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
head, tail = nn.Linear(512, 512), nn.Linear(512, 512)
inner = nn.ModuleList(nn.Linear(512, 512) for _ in range(2))


def block(x):
    x = inner[0](x).tanh()  # @inner
    return inner[1](x).tanh()  # @outer


layers = nn.ModuleList([head, tail, inner])
optimizer = torch.optim.SGD(layers.parameters(), 0.01)
inputs = torch.randn(384, 512)
for _ in range(120):
    optimizer.zero_grad()
    x = head(inputs).relu()  # @head
    x = checkpoint(block, x, use_reentrant=True)
    loss = tail(x).square().mean()  # @tail
    loss.backward()  # @backward
    optimizer.step()  # @optimizer
