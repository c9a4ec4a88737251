"""Small DCGAN trained on synthetic 32x32 face-like sprites."""
import os
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

STEPS = int(os.environ.get("STEPS", "250"))
BATCH = 8
LATENT = 64
CRITIC_STEPS = 3


def make_sprites(n, seed=0):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[-1:1:32j, -1:1:32j]
    out = np.empty((n, 3, 32, 32), np.float32)
    for i in range(n):
        cx, cy = rng.normal(0, 0.1, 2)
        rx, ry = rng.uniform(0.5, 0.8, 2)
        skin, back = rng.uniform(0.4, 1.0, 3), rng.uniform(-1.0, 0.0, 3)
        face = ((xx - cx) / rx) ** 2 + ((yy - cy) / ry) ** 2 < 1
        img = np.where(face[None], skin[:, None, None], back[:, None, None])
        for side in (-0.3, 0.3):
            eye = (xx - cx - side) ** 2 + (yy - cy + 0.2) ** 2 < rng.uniform(0.01, 0.02)
            img = np.where(eye[None], -0.8, img)
        mouth = (np.abs(xx - cx) < 0.3) & (np.abs(yy - cy - 0.35) < 0.06)
        out[i] = np.where(mouth[None], np.array([0.6, -0.5, -0.5])[:, None, None], img)
    return out + rng.normal(0, 0.02, out.shape).astype(np.float32)


class Generator(nn.Module):
    def __init__(self, ch=24):
        super().__init__()
        self.ch = ch
        self.fc = nn.Linear(LATENT, ch * 4 * 4 * 4)
        self.net = nn.Sequential(
            nn.BatchNorm2d(ch * 4), nn.ReLU(),
            nn.Upsample(scale_factor=2), nn.Conv2d(ch * 4, ch * 2, 3, padding=1),
            nn.BatchNorm2d(ch * 2), nn.ReLU(),
            nn.Upsample(scale_factor=2), nn.Conv2d(ch * 2, ch, 3, padding=1),
            nn.BatchNorm2d(ch), nn.ReLU(),
            nn.Conv2d(ch, ch, 3, padding=1), nn.BatchNorm2d(ch), nn.ReLU(),
            nn.Upsample(scale_factor=2), nn.Conv2d(ch, ch, 3, padding=1),
            nn.BatchNorm2d(ch), nn.ReLU(),
            nn.Conv2d(ch, 3, 3, padding=1), nn.Tanh())

    def forward(self, z):
        return self.net(self.fc(z).view(-1, self.ch * 4, 4, 4))


class Discriminator(nn.Module):
    def __init__(self, ch=12):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, ch, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Conv2d(ch, ch * 2, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Conv2d(ch * 2, ch * 4, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Flatten(), nn.Linear(ch * 4 * 16, 1))

    def forward(self, x):
        return self.net(x).squeeze(1)


def main():
    torch.manual_seed(0)
    images = torch.from_numpy(make_sprites(3000))
    g, d = Generator(), Discriminator()
    opt_g = torch.optim.Adam(g.parameters(), lr=2e-4, betas=(0.5, 0.999))
    opt_d = torch.optim.Adam(d.parameters(), lr=2e-4, betas=(0.5, 0.999))
    ones, zeros = torch.ones(BATCH), torch.zeros(BATCH)
    fixed_noise = torch.randn(16, LATENT)

    start = time.perf_counter()
    for step in range(STEPS):
        if step == 20:
            start = time.perf_counter()
        for _ in range(CRITIC_STEPS):
            real = images[torch.randint(0, len(images), (BATCH,))]
            opt_d.zero_grad()
            fake = g(torch.randn(BATCH, LATENT))
            loss_d = (F.binary_cross_entropy_with_logits(d(real), 0.9 * ones)
                      + F.binary_cross_entropy_with_logits(d(fake.detach()), zeros))
            loss_d.backward()
            opt_d.step()

        opt_g.zero_grad()
        fake = g(torch.randn(BATCH, LATENT))
        loss_g = F.binary_cross_entropy_with_logits(d(fake), ones)
        loss_g.backward()
        opt_g.step()

        if step % 25 == 0:
            print(f"step {step:4d}  loss D {loss_d.item():.4f}  loss G {loss_g.item():.4f}",
                  flush=True)
    elapsed = time.perf_counter() - start

    g.eval()
    with torch.no_grad():
        sample = g(fixed_noise)
    print(f"sample mean {sample.mean().item():.3f} std {sample.std().item():.3f}")
    print(f"final loss D {loss_d.item():.4f} loss G {loss_g.item():.4f}")
    print(f"{1000 * elapsed / max(STEPS - 20, 1):.2f} ms/step")


if __name__ == "__main__":
    main()
