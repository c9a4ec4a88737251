"""Train a small DCGAN on procedurally generated 32x32 grey textures.

The generator learns oriented stripe patterns with random phase and frequency. Hinge loss, one
discriminator update and one generator update per batch, averaged generator weights for sampling.
"""

import copy
import math
import time

import torch
import torch.nn.functional as F
from torch import nn

LATENT = 64
BATCH = 16
STEPS = 450
SIZE = 32


def make_textures(count, generator):
    """Stripes: sin(fx * x + fy * y + phase), scaled to [-1, 1], with a little noise."""
    axis = torch.linspace(0, 2 * math.pi, SIZE)
    yy, xx = torch.meshgrid(axis, axis, indexing="ij")
    freq = 1 + 3 * torch.rand(count, 2, generator=generator)
    phase = 2 * math.pi * torch.rand(count, 1, 1, generator=generator)
    waves = torch.sin(freq[:, 0, None, None] * xx + freq[:, 1, None, None] * yy + phase)
    waves = waves + 0.05 * torch.randn(count, SIZE, SIZE, generator=generator)
    return waves.clamp(-1, 1).unsqueeze(1)


class UpBlock(nn.Module):
    def __init__(self, c_in, c_out):
        super().__init__()
        self.conv1 = nn.Conv2d(c_in, c_out, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(c_out)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, padding=1)
        self.norm2 = nn.BatchNorm2d(c_out)

    def forward(self, x):
        x = F.interpolate(x, scale_factor=2, mode="nearest")
        x = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(x)))


class Generator(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.width = width
        self.project = nn.Linear(LATENT, 4 * width * 4 * 4)
        self.blocks = nn.Sequential(
            UpBlock(4 * width, 2 * width),
            UpBlock(2 * width, width),
            UpBlock(width, width // 2),
        )
        self.to_grey = nn.Conv2d(width // 2, 1, 3, padding=1)

    def forward(self, z):
        x = self.project(z).view(-1, 4 * self.width, 4, 4)
        return torch.tanh(self.to_grey(self.blocks(x)))


class Discriminator(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, width, 4, stride=2, padding=1),
            nn.LeakyReLU(0.2),
            nn.Conv2d(width, 2 * width, 4, stride=2, padding=1),
            nn.LeakyReLU(0.2),
            nn.Conv2d(2 * width, 4 * width, 4, stride=2, padding=1),
            nn.LeakyReLU(0.2),
        )
        self.head = nn.Linear(4 * width * 4 * 4, 1)

    def forward(self, x):
        return self.head(self.body(x).flatten(1)).squeeze(1)


def set_requires_grad(net, flag):
    for p in net.parameters():
        p.requires_grad_(flag)


@torch.no_grad()
def update_average(average, net, decay=0.995):
    for a, p in zip(average.parameters(), net.parameters()):
        a.lerp_(p, 1 - decay)
    for a, b in zip(average.buffers(), net.buffers()):
        a.copy_(b)


def discriminator_step(gen, disc, opt_d, real):
    set_requires_grad(disc, True)
    opt_d.zero_grad()
    z = torch.randn(real.size(0), LATENT)
    fake = gen(z)
    loss = F.relu(1 - disc(real)).mean() + F.relu(1 + disc(fake)).mean()
    loss.backward()
    opt_d.step()
    return loss.detach()


def generator_step(gen, disc, opt_g, batch_size):
    set_requires_grad(disc, False)
    opt_g.zero_grad()
    z = torch.randn(batch_size, LATENT)
    loss = -disc(gen(z)).mean()
    loss.backward()
    opt_g.step()
    return loss.detach()


def main():
    torch.manual_seed(0)
    data_rng = torch.Generator().manual_seed(1)
    textures = make_textures(4096, data_rng)
    gen, disc = Generator(), Discriminator()
    average = copy.deepcopy(gen).eval()
    opt_g = torch.optim.Adam(gen.parameters(), lr=2e-4, betas=(0.5, 0.99))
    opt_d = torch.optim.Adam(disc.parameters(), lr=2e-4, betas=(0.5, 0.99))

    times = []
    d_sum = torch.zeros(())
    g_sum = torch.zeros(())
    for step in range(1, STEPS + 1):
        start = time.perf_counter()
        real = textures[torch.randint(len(textures), (BATCH,), generator=data_rng)]
        d_sum += discriminator_step(gen, disc, opt_d, real)
        g_sum += generator_step(gen, disc, opt_g, BATCH)
        update_average(average, gen)
        times.append(time.perf_counter() - start)
        if step % 100 == 0:
            print(f"step {step:4d}  d {d_sum.item() / 100:.3f}  g {g_sum.item() / 100:.3f}")
            d_sum.zero_()
            g_sum.zero_()

    with torch.no_grad():
        samples = average(torch.randn(64, LATENT))
    print(f"sample std {samples.std().item():.3f}")
    rest = sorted(times[30:])
    print(
        f"median step {1000 * rest[len(rest) // 2]:.2f} ms  "
        f"mean {1000 * sum(rest) / len(rest):.2f} ms"
    )


if __name__ == "__main__":
    main()
