"""Fits a critic that tells how far apart two sets of spectra are; a penalty keeps it smooth."""

import argparse
import statistics
import time

import torch
from torch import nn

BANDS = 192


class Critic(nn.Module):
    """Scores spectra; the difference of the mean scores of two sets is their distance."""

    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(BANDS, width),
            nn.LeakyReLU(0.2),
            nn.Linear(width, width),
            nn.LeakyReLU(0.2),
            nn.Linear(width, 1),
        )

    def forward(self, spectra):
        return self.layers(spectra).squeeze(1)


def penalty(critic, one, other):
    """How far the slope of the critic is from 1, between two sets of spectra."""
    share = torch.rand(len(one), 1)
    between = (share * one + (1 - share) * other).requires_grad_()
    (slopes,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
    return (slopes.norm(2, dim=1) - 1).square().mean()


def make_spectra(count, shift, random):
    """Spectra with a peak at a random place; (count, BANDS)."""
    places = 40 + shift + 20 * torch.randn([count, 1], generator=random)
    return torch.exp(-(((torch.arange(BANDS) - places) / 8) ** 2))


def train(options):
    torch.manual_seed(4)
    random = torch.Generator().manual_seed(4)
    old, new = (make_spectra(8192, shift, random) for shift in (0, 12))
    critic = Critic(options.width)
    optimizer = torch.optim.Adam(critic.parameters(), lr=2e-4, betas=(0.5, 0.9))
    times = []
    for step in range(options.steps):
        start = time.perf_counter()
        one, other = (kept[torch.randint(len(kept), [options.batch])] for kept in (old, new))
        distance = critic(one).mean() - critic(other).mean()
        loss = -distance
        if step % options.every == 0:
            loss = loss + 10 * options.every * penalty(critic, one, other)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(time.perf_counter() - start)
        if (step + 1) % 50 == 0:
            print(f"step {step + 1:3d}  distance {distance.item():.4f}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:]):.1f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="steps per penalty")
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--width", type=int, default=512)
    train(parser.parse_args())


if __name__ == "__main__":
    main()
