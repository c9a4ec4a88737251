"""The gradients of four batches make one step."""

import torch
from torch import nn

torch.manual_seed(0)
body, head = nn.Linear(512, 1024), nn.Linear(1024, 128)
optimizer = torch.optim.AdamW([*body.parameters(), *head.parameters()], 1e-3)
batches = torch.randn(4, 128, 512)
for _ in range(120):
    for batch in batches:
        noisy = batch + 0.1 * torch.randn_like(batch)  # @noise
        hidden = body(noisy).relu()  # @body
        loss = head(hidden).square().mean() / 4  # @head
        loss.backward()  # @backward
    optimizer.step()  # @optimizer
    optimizer.zero_grad()
