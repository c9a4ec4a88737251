"""2D U-Net trained on axial slices of synthetic CT volumes."""
import argparse
import os
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

CASES, DEPTH, SIZE = 6, 48, 80


def write_cases(root, seed=11):
    rng = np.random.default_rng(seed)
    zz, yy, xx = np.meshgrid(np.linspace(-1, 1, DEPTH), np.linspace(-1, 1, SIZE),
                             np.linspace(-1, 1, SIZE), indexing="ij")
    paths = []
    for case in range(CASES):
        image = np.full((DEPTH, SIZE, SIZE), -700.0, dtype=np.float32)
        mask = np.zeros((DEPTH, SIZE, SIZE), dtype=np.uint8)
        body = (yy ** 2 + xx ** 2) < 0.8
        image[body] = 40.0
        for organ in (1, 2):
            cz, cy, cx = rng.uniform(-0.4, 0.4, 3)
            rz, ry, rx = rng.uniform(0.25, 0.5, 3)
            inside = ((zz - cz) / rz) ** 2 + ((yy - cy) / ry) ** 2 + ((xx - cx) / rx) ** 2 < 1
            image[inside] = 60.0 + 70.0 * organ
            mask[inside] = organ
        image += rng.normal(0, 45, image.shape)
        path = os.path.join(root, f"case_{case:03d}.npz")
        np.savez_compressed(path, image=image.astype(np.int16), mask=mask)
        paths.append(path)
    return paths


class SliceDataset(Dataset):
    def __init__(self, paths):
        self.paths = paths
        self.index = [(c, z) for c in range(len(paths)) for z in range(DEPTH)]

    def __len__(self):
        return len(self.index)

    def __getitem__(self, i):
        case, z = self.index[i]
        with np.load(self.paths[case]) as data:
            image = data["image"][z]
            mask = data["mask"][z]
        image = (np.clip(image, -200, 300).astype(np.float32) - 50.0) / 150.0
        return torch.from_numpy(image).unsqueeze(0), torch.from_numpy(mask.astype(np.int64))


def block(cin, cout):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True),
        nn.Conv2d(cout, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True))


class UNet(nn.Module):
    def __init__(self, classes=3, base=8):
        super().__init__()
        self.down1 = block(1, base)
        self.down2 = block(base, base * 2)
        self.mid = block(base * 2, base * 4)
        self.up2 = nn.ConvTranspose2d(base * 4, base * 2, 2, stride=2)
        self.dec2 = block(base * 4, base * 2)
        self.up1 = nn.ConvTranspose2d(base * 2, base, 2, stride=2)
        self.dec1 = block(base * 2, base)
        self.head = nn.Conv2d(base, classes, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.mid(F.max_pool2d(b, 2))
        b = self.dec2(torch.cat([self.up2(c), b], 1))
        a = self.dec1(torch.cat([self.up1(b), a], 1))
        return self.head(a)


def dice_ce(logits, target):
    ce = F.cross_entropy(logits, target)
    prob = logits.softmax(1)[:, 1:]
    onehot = F.one_hot(target, logits.size(1)).permute(0, 3, 1, 2)[:, 1:].float()
    inter = (prob * onehot).sum((0, 2, 3))
    dice = 1 - (2 * inter + 1) / (prob.sum((0, 2, 3)) + onehot.sum((0, 2, 3)) + 1)
    return ce + dice.mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=7)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--lr", type=float, default=2e-3)
    args = parser.parse_args()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as root:
        paths = write_cases(root)
        loader = DataLoader(SliceDataset(paths), batch_size=args.batch_size, shuffle=True, drop_last=True)
        model = UNet()
        opt = torch.optim.Adam(model.parameters(), lr=args.lr)
        start, step = time.time(), 0
        for epoch in range(args.epochs):
            for image, mask in loader:
                loss = dice_ce(model(image), mask)
                opt.zero_grad(set_to_none=True)
                loss.backward()
                opt.step()
                if step % 20 == 0:
                    print(f"epoch {epoch} step {step:4d} loss {loss.item():.4f} "
                          f"time {time.time() - start:.1f}s", flush=True)
                step += 1
    print(f"finished {step} steps, last loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
