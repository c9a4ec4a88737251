"""DCGAN on 32x32 synthetic line sketches."""
import os

import torch
import torch.nn as nn
import torch.nn.functional as F

STEPS = int(os.environ.get("STEPS", "450"))
BATCH, LATENT, SIZE = 32, 64, 32


def make_sketches(n, gen):
    ys, xs = torch.meshgrid(torch.linspace(-1, 1, SIZE), torch.linspace(-1, 1, SIZE), indexing="ij")
    angle = torch.rand(n, 1, 1, generator=gen) * 3.1416
    offset = (torch.rand(n, 1, 1, generator=gen) - 0.5) * 0.8
    dist = xs * torch.cos(angle) + ys * torch.sin(angle) - offset
    radius = 0.3 + 0.4 * torch.rand(n, 1, 1, generator=gen)
    ring = (xs ** 2 + ys ** 2).sqrt() - radius
    img = torch.exp(-(dist / 0.08) ** 2) + torch.exp(-(ring / 0.08) ** 2)
    return img.clamp(0, 1).unsqueeze(1) * 2 - 1


class Generator(nn.Module):
    def __init__(self, w=48):
        super().__init__()
        self.fc = nn.Linear(LATENT, 4 * w * 4 * 4)
        self.w = w
        self.up = nn.Sequential(
            nn.BatchNorm2d(4 * w), nn.ReLU(True),
            nn.ConvTranspose2d(4 * w, 2 * w, 4, 2, 1, bias=False),
            nn.BatchNorm2d(2 * w), nn.ReLU(True),
            nn.ConvTranspose2d(2 * w, w, 4, 2, 1, bias=False),
            nn.BatchNorm2d(w), nn.ReLU(True),
            nn.ConvTranspose2d(w, w // 2, 4, 2, 1, bias=False),
            nn.BatchNorm2d(w // 2), nn.ReLU(True),
            nn.Conv2d(w // 2, 1, 3, 1, 1), nn.Tanh())

    def forward(self, z):
        return self.up(self.fc(z).view(-1, 4 * self.w, 4, 4))


class Discriminator(nn.Module):
    def __init__(self, w=12):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, w, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Conv2d(w, 2 * w, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Conv2d(2 * w, 4 * w, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Flatten(), nn.Linear(4 * w * 16, 1))

    def forward(self, x):
        return self.net(x).squeeze(1)


def init_weights(m):
    if isinstance(m, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(m.weight, 0.0, 0.02)


def main():
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(1)
    images = make_sketches(4096, gen)
    netG, netD = Generator(), Discriminator()
    netG.apply(init_weights)
    netD.apply(init_weights)
    optG = torch.optim.Adam(netG.parameters(), lr=2e-4, betas=(0.5, 0.999))
    optD = torch.optim.Adam(netD.parameters(), lr=2e-4, betas=(0.5, 0.999))
    ones, zeros = torch.full((BATCH,), 0.9), torch.zeros(BATCH)

    for step in range(1, STEPS + 1):
        real = images[torch.randint(0, len(images), (BATCH,), generator=gen)]
        z = torch.randn(BATCH, LATENT, generator=gen)
        fake = netG(z)

        # discriminator
        optD.zero_grad()
        d_real = F.binary_cross_entropy_with_logits(netD(real), ones)
        d_fake = F.binary_cross_entropy_with_logits(netD(fake.detach()), zeros)
        d_loss = d_real + d_fake
        d_loss.backward()
        optD.step()

        # generator
        optG.zero_grad()
        g_loss = F.binary_cross_entropy_with_logits(netD(fake), ones)
        g_loss.backward()
        optG.step()

        if step % 50 == 0 or step == STEPS:
            print(f"step {step} d_loss {d_loss.item():.4f} g_loss {g_loss.item():.4f}", flush=True)

    netG.eval()
    with torch.no_grad():
        sample = netG(torch.randn(64, LATENT, generator=gen))
    print(f"sample mean {sample.mean().item():.4f} std {sample.std().item():.4f}")


if __name__ == "__main__":
    main()
