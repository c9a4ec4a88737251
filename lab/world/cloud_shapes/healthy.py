"""Point-cloud classifier with per-point layers and max pooling."""
import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

POINTS = 256
CLASSES = 5
BATCH = 32
STEPS = 400


class Shapes:
    """Spheres, cubes, cylinders, cones and tori, randomly turned and scaled."""

    def __init__(self, count, seed):
        self.gen = torch.Generator().manual_seed(seed)
        self.label = torch.randint(0, CLASSES, (count,), generator=self.gen)
        self.points = torch.empty(count, POINTS, 3)
        for k in range(CLASSES):
            rows = (self.label == k).nonzero()[:, 0]
            self.points[rows] = self._surface(k, len(rows))

    def _rand(self, n):
        return torch.rand(n, POINTS, generator=self.gen)

    def _surface(self, kind, n):
        a, b = self._rand(n) * 2 * math.pi, self._rand(n) * 2 - 1
        if kind == 0:
            r = (1 - b ** 2).sqrt()
            return torch.stack([r * a.cos(), r * a.sin(), b], 2)
        if kind == 1:
            p = torch.rand(n, POINTS, 3, generator=self.gen) * 2 - 1
            return p / p.abs().amax(2, keepdim=True)
        if kind == 2:
            return torch.stack([a.cos(), a.sin(), b], 2)
        if kind == 3:
            r = (1 - b) / 2
            return torch.stack([r * a.cos(), r * a.sin(), b], 2)
        c = b * math.pi
        r = 1 + 0.4 * c.cos()
        return torch.stack([r * a.cos(), r * a.sin(), 0.4 * c.sin()], 2)

    def batch(self, n):
        i = torch.randint(0, len(self.label), (n,), generator=self.gen)
        turn = torch.linalg.qr(torch.randn(n, 3, 3, generator=self.gen))[0]
        x = torch.bmm(self.points[i], turn)
        x = x * (0.8 + 0.4 * torch.rand(n, 1, 1, generator=self.gen))
        return x + 0.03 * torch.randn(x.shape, generator=self.gen), self.label[i]


class PointNet(nn.Module):
    def __init__(self, width=64, top=192):
        super().__init__()
        self.local = nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.wide = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, top))
        self.head = nn.Sequential(nn.Linear(top, 128), nn.ReLU(), nn.Linear(128, CLASSES))

    def forward(self, x):
        h = self.local(x)
        pooled = h.amax(1, keepdim=True).expand_as(h)
        h = self.wide(torch.cat([h, pooled], 2))
        return self.head(h.amax(1))


@torch.inference_mode()
def accuracy(model, data):
    model.eval()
    x, y = data.batch(128)
    hit = (model(x).argmax(1) == y).float().mean().item()
    model.train()
    return hit


def main():
    torch.manual_seed(0)
    train, test = Shapes(2000, 1), Shapes(400, 2)
    model = PointNet()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-3)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 4e-3, total_steps=STEPS)
    start = time.time()
    for step in range(1, STEPS + 1):
        x, y = train.batch(BATCH)
        loss = F.cross_entropy(model(x), y, label_smoothing=0.05)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        sched.step()
        if step % 50 == 0:
            print(f"step {step:4d} loss {loss.item():.4f} test {accuracy(model, test):.3f} "
                  f"time {time.time() - start:.2f}s", flush=True)


if __name__ == "__main__":
    main()
