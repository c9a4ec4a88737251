"""A model under torch.compile."""

import torch
from torch import nn

torch.manual_seed(25)
model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.LayerNorm(256), nn.Linear(256, 1))
compiled = torch.compile(model, backend="eager")
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1)

for step in range(40):
    batch = 48 if step == 20 else 64  # another shape, so another compilation
    x = torch.randn(batch, 64)
    y = x.square().mean(1, keepdim=True)
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(compiled(x), y)
    loss.backward()
    optimizer.step()
    if step % 5 == 0 or step == 39:
        print(f"{step}\t{loss.item():.9g}")
