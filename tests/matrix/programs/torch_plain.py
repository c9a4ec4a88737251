"""The loop of the tutorials."""

import torch
from torch import nn

torch.manual_seed(21)
model = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Dropout(0.1), nn.Linear(512, 10))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=15)

for step in range(40):
    inputs = torch.randn(128, 128)
    labels = inputs[:, :10].argmax(1)
    optimizer.zero_grad()
    loss = criterion(model(inputs), labels)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    scheduler.step()
    print(f"[{step}] loss={loss.item()!r} lr={scheduler.get_last_lr()[0]:.4f}")
