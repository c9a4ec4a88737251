"""Shape recognition with a small residual network, random crops and flips."""
import os
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

STEPS = int(os.environ.get("STEPS", "400"))
BATCH = 32
CLASSES = 5
SIZE = 28


def make_shapes(n, seed):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[-1:1:SIZE * 1j, -1:1:SIZE * 1j]
    labels = rng.integers(0, CLASSES, n)
    images = np.empty((n, 3, SIZE, SIZE), np.float32)
    for i, label in enumerate(labels):
        angle, r = rng.uniform(0, np.pi), rng.uniform(0.35, 0.7)
        u = (xx * np.cos(angle) + yy * np.sin(angle)) / r
        v = (-xx * np.sin(angle) + yy * np.cos(angle)) / r
        mask = [u ** 2 + v ** 2 < 1, np.maximum(abs(u), abs(v)) < 0.8, abs(u) + abs(v) < 1,
                (abs(u) < 0.25) | (abs(v) < 0.25), abs(u ** 2 + v ** 2 - 0.7) < 0.25][label]
        fore, back = rng.uniform(0.3, 1.0, (3, 1, 1)), rng.uniform(0.0, 0.6, (3, 1, 1))
        images[i] = np.where(mask[None], fore, back)
    images += rng.normal(0, 0.08, images.shape).astype(np.float32)
    return torch.from_numpy(images), torch.from_numpy(labels)


def augment(x, pad=3):
    x = F.pad(x, (pad,) * 4, mode="reflect")
    top, left = torch.randint(0, 2 * pad + 1, (2,)).tolist()
    x = x[:, :, top:top + SIZE, left:left + SIZE]
    return x.flip(3) if torch.rand(()) < 0.5 else x


class Residual(nn.Module):
    def __init__(self, c_in, c_out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(c_in, c_out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(c_out)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(c_out)
        self.skip = nn.Identity() if c_in == c_out and stride == 1 else nn.Conv2d(
            c_in, c_out, 1, stride, bias=False)

    def forward(self, x):
        h = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(h)) + self.skip(x))


def build_model():
    return nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1), nn.ReLU(), Residual(16, 16, 1),
                         Residual(16, 32, 2), Residual(32, 64, 2), nn.AdaptiveAvgPool2d(1),
                         nn.Flatten(), nn.Linear(64, CLASSES))


@torch.no_grad()
def accuracy(model, x, y):
    model.eval()
    hits = sum((model(a).argmax(1) == b).sum() for a, b in zip(x.split(100), y.split(100)))
    model.train()
    return hits.item() / len(y)


def main():
    torch.manual_seed(0)
    x_train, y_train = make_shapes(4000, seed=0)
    x_test, y_test = make_shapes(400, seed=1)
    mean, std = x_train.mean((0, 2, 3), keepdim=True), x_train.std((0, 2, 3), keepdim=True)
    x_train, x_test = (x_train - mean) / std, (x_test - mean) / std

    model = build_model()
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4,
                          nesterov=True)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=0.1, total_steps=max(STEPS, 2))

    start = time.perf_counter()
    total = torch.zeros(())
    for step in range(STEPS):
        if step == 20:
            start = time.perf_counter()
        idx = torch.randint(0, len(x_train), (BATCH,))
        logits = model(augment(x_train[idx]))
        loss = F.cross_entropy(logits, y_train[idx], label_smoothing=0.05)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        sched.step()
        total += loss.detach()
        if (step + 1) % 50 == 0:
            print(f"step {step + 1:4d}  loss {total.item() / 50:.4f}", flush=True)
            total.zero_()
    elapsed = time.perf_counter() - start
    print(f"final loss {loss.item():.4f}  test acc {accuracy(model, x_test, y_test):.3f}")
    print(f"{1000 * elapsed / max(STEPS - 20, 1):.2f} ms/step")


if __name__ == "__main__":
    main()
