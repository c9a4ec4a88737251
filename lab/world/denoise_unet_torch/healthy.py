"""Image denoising with a small U-Net in PyTorch; synthetic piecewise-smooth images."""
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

BATCH, SIZE, STEPS = 16, 32, 180
torch.manual_seed(0)


def make_images(n=1500):
    """Sum of a few random half planes, smoothed; (n, 1, SIZE, SIZE) in about [0, 1]."""
    yy, xx = torch.meshgrid(torch.linspace(-1, 1, SIZE), torch.linspace(-1, 1, SIZE), indexing="ij")
    angle = torch.rand(n, 4, 1, 1) * 6.283
    offset = torch.rand(n, 4, 1, 1) - 0.5
    height = torch.rand(n, 4, 1, 1)
    planes = torch.sigmoid((xx * angle.cos() + yy * angle.sin() - offset) * 25) * height
    return planes.sum(1, keepdim=True) / 2


def block(cin, cout):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True),
        nn.Conv2d(cout, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True))


class UNet(nn.Module):
    def __init__(self, w=12):
        super().__init__()
        self.d1, self.d2, self.mid = block(1, w), block(w, 2 * w), block(2 * w, 4 * w)
        self.up2, self.u2 = nn.ConvTranspose2d(4 * w, 2 * w, 2, 2), block(4 * w, 2 * w)
        self.up1, self.u1 = nn.ConvTranspose2d(2 * w, w, 2, 2), block(2 * w, w)
        self.out = nn.Conv2d(w, 1, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        c = self.mid(F.max_pool2d(b, 2))
        b = self.u2(torch.cat([self.up2(c), b], 1))
        a = self.u1(torch.cat([self.up1(b), a], 1))
        return x - self.out(a)


def batches(images, steps):
    perm, pos = torch.randperm(len(images)), 0
    for _ in range(steps):
        if pos + BATCH > len(perm):
            perm, pos = torch.randperm(len(images)), 0
        yield images[perm[pos:pos + BATCH]]
        pos += BATCH


@torch.no_grad()
def validate(model, images):
    model.eval()
    g = torch.Generator().manual_seed(5)
    noisy = images + 0.2 * torch.randn(images.shape, generator=g)
    mse = F.mse_loss(model(noisy), images)
    model.train()
    return -10 * torch.log10(mse).item()


def main():
    images = make_images()
    train, val = images[:-64], images[-64:]
    model = UNet()
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, foreach=True)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, STEPS)
    times, running = [], torch.zeros(())
    t0 = time.perf_counter()
    for step, clean in enumerate(batches(train, STEPS), 1):
        noisy = clean + 0.2 * torch.randn_like(clean)
        loss = F.mse_loss(model(noisy), clean)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        sched.step()
        running += loss.detach()
        t1 = time.perf_counter()
        times.append(t1 - t0)
        if step % 60 == 0:
            print(f"step {step} loss {running.item() / 60:.5f} val PSNR {validate(model, val):.2f} dB")
            running.zero_()
        t0 = time.perf_counter()
    print(f"ms per step: {np.median(times[10:]) * 1e3:.2f}")


if __name__ == "__main__":
    main()
