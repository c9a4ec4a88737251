"""Trains an autoencoder, and watches the spectra of its weights and the spread of its gradients."""

import argparse
import statistics
import time
from itertools import pairwise

import torch
from torch import nn

REPORTED = 50


def autoencoder(widths):
    """Dense layers of these widths, and back."""
    sizes = [*widths, *widths[-2::-1]]
    layers = [layer for a, b in pairwise(sizes) for layer in (nn.Linear(a, b), nn.Tanh())]
    return nn.Sequential(*layers[:-1])


def watched(model):
    """The largest and the mean singular value of each matrix, and a quantile of its gradient."""
    found = {}
    for name, weight in model.named_parameters():
        if weight.ndim == 2:
            values = torch.linalg.svdvals(weight.detach())
            sizes = weight.grad.abs().flatten().sort().values
            found[name] = values[0], values.mean(), sizes[int(0.99 * len(sizes))]
    return found


def train(options):
    torch.manual_seed(6)
    model = autoencoder([96, 128, 64, 16])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    mixing = torch.randn(12, 96) / 12**0.5
    times = []
    for step in range(options.steps):
        start = time.perf_counter()
        batch = torch.tanh(torch.randn(options.batch, 12) @ mixing)
        loss = nn.functional.mse_loss(model(batch), batch)
        optimizer.zero_grad()
        loss.backward()
        is_reported = step % REPORTED == 0
        if is_reported or options.always:
            spectra = watched(model)
        optimizer.step()
        times.append(time.perf_counter() - start)
        if is_reported:
            print(f"step {step:3d}  loss {loss.item():.4f}")
            for name, values in spectra.items():
                print(f"  {name:10}", *(f"{value.item():.4f}" for value in values))
    print(f"median step {1000 * statistics.median(times[5:]):.1f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--always", action="store_true", help="watch in each step")
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--batch", type=int, default=512)
    train(parser.parse_args())


if __name__ == "__main__":
    main()
