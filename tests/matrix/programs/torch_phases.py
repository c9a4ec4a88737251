"""Two models, one trained after the other: a teacher, then a student."""

import torch
from torch import nn


def train(model, target_of, steps):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(steps):
        x = torch.randn(64, 64)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), target_of(x))
        loss.backward()
        optimizer.step()
    return optimizer, loss.item()


torch.manual_seed(34)
teacher = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 8))
student = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 8))

teacher_optimizer, loss = train(teacher, lambda x: x[:, :8] * x[:, 8:16], 40)
print("teacher", repr(loss))
teacher.requires_grad_(False)
student_optimizer, loss = train(student, teacher, 40)
print("student", repr(loss))
print(len(teacher_optimizer.state), len(student_optimizer.state))
