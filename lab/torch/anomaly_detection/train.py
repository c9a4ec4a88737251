"""Training of a deep network of small layers, whose loss once became NaN.

Anomaly detection found the layer, and was never turned off.
"""

import argparse

import torch
from torch import nn


class Block(nn.Module):
    """A residual block of two small layers."""

    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.expand = nn.Linear(width, 2 * width)
        self.shrink = nn.Linear(2 * width, width)

    def forward(self, hidden):
        return hidden + self.shrink(torch.relu(self.expand(self.norm(hidden))))


class Regressor(nn.Module):
    """Blocks between two linear layers."""

    def __init__(self, features, width, depth):
        super().__init__()
        self.inputs = nn.Linear(features, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.outputs = nn.Linear(width, 1)

    def forward(self, rows):
        hidden = self.inputs(rows)
        for block in self.blocks:
            hidden = block(hidden)
        return self.outputs(hidden).squeeze(1)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--depth", type=int, default=12)
    parser.add_argument("--detect-anomaly", action="store_true", help="look for NaN in gradients")
    return parser.parse_args()


def main():
    options = parse_arguments()
    torch.manual_seed(0)
    torch.autograd.set_detect_anomaly(options.detect_anomaly)
    rows = torch.randn(4096, 16)
    targets = rows[:, 0] * rows[:, 1] + rows[:, 2].sin()
    model = Regressor(16, options.width, options.depth)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    for step in range(options.steps):
        chosen = torch.randint(len(rows), [options.batch_size])
        loss = nn.functional.mse_loss(model(rows[chosen]), targets[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
