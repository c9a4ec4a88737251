"""Segmentation of synthetic nuclei with a small U-Net; batch-wise augmentation, Dice once per epoch."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

IMG = 48
TRAIN = 640
VALID = 96
BATCH = 16
EPOCHS = 11
LR = 2e-3


def make_data(n, seed):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:IMG, 0:IMG].astype(np.float32)
    mask = np.zeros((n, IMG, IMG), np.float32)
    for _ in range(6):
        cy, cx = rng.uniform(4, IMG - 4, (2, n, 1, 1)).astype(np.float32)
        ry, rx = rng.uniform(3, 7, (2, n, 1, 1)).astype(np.float32)
        mask = np.maximum(mask, (((yy - cy) / ry) ** 2 + ((xx - cx) / rx) ** 2 < 1).astype(np.float32))
    light = 0.4 * np.sin(xx / 9 + rng.uniform(0, 6, (n, 1, 1)))
    image = 0.8 * mask + light + rng.normal(0, 0.35, mask.shape)
    return torch.from_numpy(image.astype(np.float32))[:, None], torch.from_numpy(mask)[:, None]


def augment(x, y):
    if torch.rand(()) < 0.5:
        x, y = x.flip(-1), y.flip(-1)
    if torch.rand(()) < 0.5:
        x, y = x.flip(-2), y.flip(-2)
    k = int(torch.randint(0, 4, ()))
    x, y = torch.rot90(x, k, (-2, -1)), torch.rot90(y, k, (-2, -1))
    gain = torch.empty(len(x), 1, 1, 1).uniform_(0.8, 1.2)
    return x * gain, y


def block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True),
                         nn.Conv2d(o, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True))


class UNet(nn.Module):
    def __init__(self, w=12):
        super().__init__()
        self.e1, self.e2, self.mid = block(1, w), block(w, 2 * w), block(2 * w, 4 * w)
        self.u2, self.d2 = nn.ConvTranspose2d(4 * w, 2 * w, 2, 2), block(4 * w, 2 * w)
        self.u1, self.d1 = nn.ConvTranspose2d(2 * w, w, 2, 2), block(2 * w, w)
        self.out = nn.Conv2d(w, 1, 1)

    def forward(self, x):
        a = self.e1(x)
        b = self.e2(F.max_pool2d(a, 2))
        m = self.mid(F.max_pool2d(b, 2))
        b = self.d2(torch.cat([self.u2(m), b], 1))
        a = self.d1(torch.cat([self.u1(b), a], 1))
        return self.out(a)


def soft_dice(logits, y):
    p = torch.sigmoid(logits)
    return 1 - (2 * (p * y).sum((1, 2, 3)) + 1) / (p.sum((1, 2, 3)) + y.sum((1, 2, 3)) + 1)


def main():
    torch.manual_seed(0)
    train = DataLoader(TensorDataset(*make_data(TRAIN, 0)), batch_size=BATCH, shuffle=True, drop_last=True)
    valid = DataLoader(TensorDataset(*make_data(VALID, 1)), batch_size=VALID)
    model = UNet()
    opt = torch.optim.Adam(model.parameters(), lr=LR)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, EPOCHS)
    step = 0
    for epoch in range(EPOCHS):
        model.train()
        for x, y in train:
            x, y = augment(x, y)
            logits = model(x)
            loss = F.binary_cross_entropy_with_logits(logits, y) + soft_dice(logits, y).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            step += 1
            if step % 20 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
        sched.step()
        model.eval()
        with torch.no_grad():
            dice = torch.cat([1 - soft_dice(model(x), y) for x, y in valid]).mean()
        print(f"epoch {epoch} dice {dice.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
