"""2-D organ segmentation on abdominal CT slices: Dice plus boundary loss."""
import os
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from scipy.ndimage import distance_transform_edt
from torch.utils.data import DataLoader, Dataset, RandomSampler

STEPS = int(os.environ.get("STEPS", "350"))
SIZE = 96
CLASSES = 9          # background and eight organs
BATCH = 5


def make_slice(rng):
    """A body ellipse with eight organs of random place and size, in HU / 1000."""
    yy, xx = np.mgrid[:SIZE, :SIZE].astype(np.float32)
    label = np.zeros((SIZE, SIZE), np.int64)
    image = np.where(((xx - 48) / 42) ** 2 + ((yy - 48) / 34) ** 2 < 1, 0.04, -1.0)
    for organ, (cx, cy, r, hu) in enumerate(
            [(32, 42, 14, 0.11), (60, 62, 7, 0.18), (36, 62, 7, 0.18), (70, 40, 8, 0.13),
             (52, 34, 7, 0.07), (50, 48, 5, 0.09), (48, 58, 3, 0.20), (43, 57, 3, 0.16)], start=1):
        cx, cy = cx + rng.normal(0, 3), cy + rng.normal(0, 3)
        rx, ry = r * rng.uniform(0.7, 1.2), r * rng.uniform(0.7, 1.2)
        inside = ((xx - cx) / rx) ** 2 + ((yy - cy) / ry) ** 2 < 1
        label[inside] = organ
        image[inside] = hu
    image = image + rng.normal(0, 0.05, image.shape)
    return image.astype(np.float32), label


def signed_distance(label):
    """Signed Euclidean distance to every organ's contour, negative inside."""
    field = np.zeros((CLASSES, *label.shape), np.float32)
    for c in range(1, CLASSES):
        inside = label == c
        if inside.any():
            outside = ~inside
            field[c] = (distance_transform_edt(outside) * outside
                        - (distance_transform_edt(inside) - 1) * inside)
    return field


class SliceDataset(Dataset):
    def __init__(self, count, seed=0):
        rng = np.random.default_rng(seed)
        slices = [make_slice(rng) for _ in range(count)]
        self.images = torch.from_numpy(np.stack([s[0] for s in slices]))[:, None]
        self.labels = torch.from_numpy(np.stack([s[1] for s in slices]))

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        image = self.images[i] + 0.02 * torch.randn(1)      # scanner offset
        return image, self.labels[i]


def block(cin, cout):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, padding=1), nn.InstanceNorm2d(cout, affine=True), nn.ReLU(),
        nn.Conv2d(cout, cout, 3, padding=1), nn.InstanceNorm2d(cout, affine=True), nn.ReLU())


class UNet(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.stem = nn.Conv2d(1, width, 4, stride=2, padding=1)
        self.enc1, self.enc2 = block(width, width), block(width, 2 * width)
        self.mid = block(2 * width, 4 * width)
        self.up2 = nn.ConvTranspose2d(4 * width, 2 * width, 2, stride=2)
        self.dec2 = block(4 * width, 2 * width)
        self.up1 = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.dec1 = block(2 * width, width)
        self.head = nn.ConvTranspose2d(width, CLASSES, 2, stride=2)

    def forward(self, x):
        a = self.enc1(self.stem(x))
        b = self.enc2(F.max_pool2d(a, 2))
        c = self.mid(F.max_pool2d(b, 2))
        b = self.dec2(torch.cat([self.up2(c), b], 1))
        a = self.dec1(torch.cat([self.up1(b), a], 1))
        return self.head(a)


def dice_loss(probs, onehot, eps=1.0):
    inter = (probs * onehot).sum((2, 3))
    total = (probs + onehot).sum((2, 3))
    return 1 - ((2 * inter + eps) / (total + eps))[:, 1:].mean()


def boundary_loss(probs, labels):
    distance = np.stack([signed_distance(label) for label in labels.numpy()])
    return (probs * torch.from_numpy(distance))[:, 1:].mean()


def main():
    torch.manual_seed(0)
    data = SliceDataset(240)
    sampler = RandomSampler(data, replacement=True, num_samples=STEPS * BATCH)
    loader = DataLoader(data, batch_size=BATCH, sampler=sampler)
    model = UNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    start = time.time()
    for step, (images, labels) in enumerate(loader, 1):
        probs = model(images).softmax(1)
        onehot = F.one_hot(labels, CLASSES).permute(0, 3, 1, 2).float()
        alpha = min(0.01 + 0.3 * step / STEPS, 0.3)
        loss = dice_loss(probs, onehot) + alpha * boundary_loss(probs, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 50 == 0:
            print(f"step {step:4d}  loss {loss.item():.4f}  "
                  f"{(time.time() - start) / step * 1e3:.1f} ms/step", flush=True)


if __name__ == "__main__":
    main()
