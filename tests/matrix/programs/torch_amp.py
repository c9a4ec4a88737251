"""Automatic mixed precision with a gradient scaler, on the CPU."""

import torch
from torch import nn

torch.manual_seed(30)
model = nn.Sequential(nn.Linear(96, 384), nn.SiLU(), nn.Linear(384, 96))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)

for step in range(40):
    x = torch.randn(64, 96)
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = nn.functional.mse_loss(model(x), x.flip(1))
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    if step % 8 == 0:
        print(step, loss.item(), scaler.get_scale())
