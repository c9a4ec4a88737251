"""Digit-like shape classifier regularised to be locally invariant to small rotations (tangent propagation)."""
import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call, jacrev, vmap

torch.manual_seed(0)
SIDE, CLASSES = 20, 10
BATCH, STEPS, WEIGHT = 32, 100, 0.02


def shapes(n, seed):
    """Polygons and stars with 3..12 corners, randomly turned and scaled, softly rasterised."""
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, CLASSES, (n,), generator=g)
    axis = torch.linspace(-1, 1, SIDE)
    yy, xx = torch.meshgrid(axis, axis, indexing="ij")
    radius, angle = (xx ** 2 + yy ** 2).sqrt(), torch.atan2(yy, xx)
    turn = torch.rand(n, 1, 1, generator=g) * 2 * math.pi
    scale = 0.5 + 0.3 * torch.rand(n, 1, 1, generator=g)
    corners = (y + 3).view(n, 1, 1).float()
    edge = scale * (1 + 0.25 * torch.cos(corners * (angle + turn)))
    x = torch.sigmoid((edge - radius) * 12) + 0.05 * torch.randn(n, SIDE, SIDE, generator=g)
    return x.unsqueeze(1), y


def rotation_tangents(x):
    """d/d(angle) of the rotated image at angle zero, by finite differences on the grid."""
    axis = torch.linspace(-1, 1, SIDE)
    gy, gx = torch.gradient(x, spacing=(axis, axis), dim=(2, 3))
    return axis.view(1, 1, SIDE, 1) * gx - axis.view(1, 1, 1, SIDE) * gy


class ConvNet(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.c1 = nn.Conv2d(1, width, 3, padding=1)
        self.c2 = nn.Conv2d(width, 2 * width, 3, padding=1, stride=2)
        self.c3 = nn.Conv2d(2 * width, 2 * width, 3, padding=1, stride=2)
        self.fc = nn.Linear(2 * width * 25, CLASSES)

    def forward(self, x):
        x = F.softplus(self.c1(x))
        x = F.softplus(self.c2(x))
        x = F.softplus(self.c3(x))
        return self.fc(x.flatten(1))


def tangent_penalty(model, x, tangents):
    params = dict(model.named_parameters())

    def single(image):
        return functional_call(model, params, (image.unsqueeze(0),)).squeeze(0)

    jac = vmap(jacrev(single))(x)
    change = (jac.flatten(2) @ tangents.flatten(1).unsqueeze(-1)).squeeze(-1)
    return change.square().sum(1).mean()


def accuracy(model, x, y):
    with torch.no_grad():
        return (model(x).argmax(1) == y).float().mean().item()


x_train, y_train = shapes(3200, seed=1)
x_test, y_test = shapes(500, seed=2)
t_train = rotation_tangents(x_train)

model = ConvNet()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
times = []
for step in range(STEPS):
    t0 = time.perf_counter()
    idx = torch.randint(0, len(x_train), (BATCH,))
    x, y, t = x_train[idx], y_train[idx], t_train[idx]
    ce = F.cross_entropy(model(x), y)
    penalty = tangent_penalty(model, x, t)
    loss = ce + WEIGHT * penalty
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    times.append(time.perf_counter() - t0)
    if (step + 1) % 25 == 0:
        print(f"step {step + 1}: ce {ce.item():.4f} penalty {penalty.item():.4f} "
              f"test acc {accuracy(model, x_test, y_test):.3f}")
print(f"median {sorted(times)[STEPS // 2] * 1e3:.1f} ms/step")
