"""Joint semantic segmentation, depth and surface normals for street scenes."""
import os
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, RandomSampler, TensorDataset

STEPS = int(os.environ.get("STEPS", "350"))
HEIGHT, WIDTH = 40, 80
CLASSES = 7
BATCH = 3


def make_scenes(count, seed=0):
    """Road plane, sky and a few box-shaped vehicles seen by a forward camera."""
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[:HEIGHT, :WIDTH].astype(np.float32)
    images = np.empty((count, 3, HEIGHT, WIDTH), np.float32)
    labels = np.zeros((count, HEIGHT, WIDTH), np.int64)
    depths = np.empty((count, 1, HEIGHT, WIDTH), np.float32)
    normals = np.zeros((count, 3, HEIGHT, WIDTH), np.float32)
    for n in range(count):
        horizon = rng.uniform(14, 20)
        road = yy > horizon
        depth = np.where(road, 1.5 * 40 / np.maximum(yy - horizon, 1), 80)
        label = np.where(road, 1, 0)
        normal = np.zeros((3, HEIGHT, WIDTH))
        normal[1] = road
        for _ in range(rng.integers(1, 5)):
            z = rng.uniform(6, 40)
            w, h = 60 / z * rng.uniform(1, 2), 60 / z
            cx, base = rng.uniform(0, WIDTH), horizon + 60 / z
            box = (abs(xx - cx) < w) & (yy < base) & (yy > base - h) & (depth > z)
            label[box] = rng.integers(2, CLASSES)
            depth[box] = z
            normal[:, box] = np.array([[0], [0], [-1]])
        labels[n], depths[n, 0], normals[n] = label, np.log(np.minimum(depth, 80)), normal
        shade = 0.2 + 0.1 * label - 0.05 * depths[n, 0]
        images[n] = shade + rng.normal(0, 0.05, (3, HEIGHT, WIDTH))
    return TensorDataset(*(torch.from_numpy(a) for a in (images, labels, depths, normals)))


class Residual(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(cout), nn.BatchNorm2d(cout)
        self.skip = nn.Conv2d(cin, cout, 1, stride, bias=False)

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.skip(x))


class Head(nn.Sequential):
    def __init__(self, cin, cout):
        super().__init__(nn.Conv2d(cin, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, cout, 1))

    def forward(self, x):
        return F.interpolate(super().forward(x), size=(HEIGHT, WIDTH), mode="bilinear",
                             align_corners=False)


class SceneNet(nn.Module):
    def __init__(self, width=20):
        super().__init__()
        self.encoder = nn.Sequential(
            Residual(3, width, 2), Residual(width, width, 1), Residual(width, 2 * width, 2),
            Residual(2 * width, 2 * width, 1), Residual(2 * width, 2 * width, 1),
            Residual(2 * width, 4 * width, 2), Residual(4 * width, 4 * width, 1))
        self.heads = nn.ModuleDict({
            "semantic": Head(4 * width, CLASSES), "depth": Head(4 * width, 1),
            "normal": Head(4 * width, 3)})
        self.log_var = nn.ParameterDict({k: nn.Parameter(torch.zeros(())) for k in self.heads})

    def forward(self, x):
        z = self.encoder(x)
        return {name: head(z) for name, head in self.heads.items()}


def task_losses(out, label, depth, normal):
    return {
        "semantic": F.cross_entropy(out["semantic"], label),
        "depth": F.smooth_l1_loss(out["depth"], depth),
        "normal": 1 - F.cosine_similarity(out["normal"], normal, dim=1).mean(),
    }


def main():
    torch.manual_seed(0)
    data = make_scenes(320)
    loader = DataLoader(data, BATCH, sampler=RandomSampler(data, True, STEPS * BATCH))
    model = SceneNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-4, fused=True)
    start = time.time()
    for step, (image, label, depth, normal) in enumerate(loader, 1):
        losses = task_losses(model(image), label, depth, normal)
        optimizer.zero_grad()
        for name, value in losses.items():
            log_var = model.log_var[name]
            weighted = torch.exp(-log_var) * value + 0.5 * log_var
            weighted.backward(retain_graph=True)
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        if step % 50 == 0:
            parts = "  ".join(f"{k} {v.item():.3f}" for k, v in losses.items())
            print(f"step {step:4d}  {parts}  "
                  f"{(time.time() - start) / step * 1e3:.1f} ms/step", flush=True)


if __name__ == "__main__":
    main()
