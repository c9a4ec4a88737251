"""A surrogate model for simulated flows: a network that predicts drag from a sampled shape."""

import argparse
import statistics
import time

import numpy as np
import torch
from torch import nn

POINTS = 512


class Simulations:
    """Shapes as rows of points, with the drag that a solver has computed for each."""

    def __init__(self, count=4096):
        random = np.random.default_rng(0)
        self.shapes = random.normal(size=(count, POINTS))  # NumPy's default: float64
        self.drag = np.square(self.shapes[:, 1:] - self.shapes[:, :-1]).mean(1, keepdims=True)

    def tensors(self, dtype):
        """The shapes and their drag."""
        return torch.from_numpy(self.shapes).to(dtype), torch.from_numpy(self.drag).to(dtype)


class Surrogate(nn.Module):
    """Three layers with normalisation."""

    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(POINTS, width), nn.LayerNorm(width), nn.GELU(),
            nn.Linear(width, width), nn.LayerNorm(width), nn.GELU(),
            nn.Linear(width, 1),
        )  # fmt: skip

    def forward(self, shapes):
        return self.layers(shapes)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--dtype", choices=["float32", "float64"], default="float64")
    options = parser.parse_args()

    torch.manual_seed(0)
    dtype = getattr(torch, options.dtype)
    shapes, drag = Simulations().tensors(dtype)
    model = Surrogate(options.width).to(dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    times = []
    for step in range(options.steps):
        start = time.perf_counter()
        chosen = torch.randint(0, len(shapes), (options.batch,))
        loss = nn.functional.mse_loss(model(shapes[chosen]), drag[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(time.perf_counter() - start)
        if step % 50 == 49:
            print(f"step {step:3d}  loss {loss.item():.4f}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:] or times):.1f} ms")


if __name__ == "__main__":
    main()
