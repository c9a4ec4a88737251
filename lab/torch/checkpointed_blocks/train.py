"""Trains a denoiser of short recordings, a stack of residual blocks of convolutions."""

import argparse
import statistics
import time

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

SAMPLES = 512


class Block(nn.Module):
    """A residual block with a dilated convolution."""

    def __init__(self, channels, dilation):
        super().__init__()
        self.norm = nn.GroupNorm(4, channels)
        self.mix = nn.Conv1d(channels, 2 * channels, 3, padding=dilation, dilation=dilation)
        self.project = nn.Conv1d(channels, channels, 1)

    def forward(self, sound):
        gated = nn.functional.glu(self.mix(self.norm(sound)), 1)
        return sound + self.project(gated)


class Denoiser(nn.Module):
    """Estimates the noise in a recording.

    Args:
        channels: Channels of each block.
        blocks: Number of blocks.
        recompute: Whether to run blocks again in the backward pass, instead of keeping activations.
    """

    def __init__(self, channels, blocks, recompute):
        super().__init__()
        self.recompute = recompute
        self.first = nn.Conv1d(1, channels, 9, padding=4)
        self.blocks = nn.ModuleList(Block(channels, 2 ** (i % 5)) for i in range(blocks))
        self.last = nn.Conv1d(channels, 1, 9, padding=4)

    def forward(self, sound):
        hidden = self.first(sound)
        for block in self.blocks:
            if self.recompute:
                hidden = checkpoint(block, hidden, use_reentrant=False)
            else:
                hidden = block(hidden)
        return self.last(hidden)


def make_recordings(count):
    """Sums of a few tones; (count, 1, SAMPLES)."""
    random = torch.Generator().manual_seed(3)
    pitch = 0.2 * torch.rand([count, 3, 1], generator=random)
    return torch.sin(pitch * torch.arange(SAMPLES)).mean(1, keepdim=True)


def train(options):
    torch.manual_seed(3)
    recordings = make_recordings(1024)
    model = Denoiser(options.channels, options.blocks, options.recompute)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    times = []
    for step in range(options.steps):
        start = time.perf_counter()
        clean = recordings[torch.randint(len(recordings), [options.batch])]
        noise = 0.3 * torch.randn_like(clean)
        loss = nn.functional.mse_loss(model(clean + noise), noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(time.perf_counter() - start)
        if (step + 1) % 50 == 0:
            print(f"step {step + 1:3d}  loss {loss.item():.4f}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:]):.1f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recompute", action="store_true", help="checkpoint all blocks")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--channels", type=int, default=32)
    parser.add_argument("--blocks", type=int, default=10)
    train(parser.parse_args())


if __name__ == "__main__":
    main()
