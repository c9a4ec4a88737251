"""Predicts how tightly the atoms of small molecules are bound, from the graph of their bonds."""

import argparse
import statistics
import time

import torch
from torch import nn
from torch.nn import functional

MOLECULES, ATOMS, KINDS = 2048, 20, 16


class Molecules:
    """Random molecules: the kind of each atom, and the bonds between them, normalised.

    Attributes:
        kinds: Kind of each atom; (molecules, atoms).
        bonds: Weight of each pair of atoms; (molecules, atoms, atoms).
        energies: What is to be predicted; (molecules,).
    """

    def __init__(self):
        random = torch.Generator().manual_seed(7)
        self.kinds = torch.randint(0, KINDS, [MOLECULES, ATOMS], generator=random)
        bonded = torch.rand(MOLECULES, ATOMS, ATOMS, generator=random) < 0.12
        bonded = (bonded | bonded.mT | torch.eye(ATOMS, dtype=torch.bool)).float()
        scale = bonded.sum(2).rsqrt()
        self.bonds = scale[:, :, None] * bonded * scale[:, None, :]
        self.energies = self.bonds.square().sum((1, 2)) / ATOMS


class Convolution(nn.Module):
    """Each atom becomes a sum over those that it is bound to."""

    def __init__(self, width):
        super().__init__()
        self.change = nn.Linear(width, width)

    def forward(self, atoms, bonds):
        return atoms + functional.relu(bonds @ self.change(atoms))


class Energy(nn.Module):
    """The energy of each molecule of a batch.

    Args:
        width: Numbers per atom.
        layers: Number of graph convolutions.
    """

    def __init__(self, width, layers):
        super().__init__()
        self.kinds = nn.Embedding(KINDS, width)
        self.layers = nn.ModuleList(Convolution(width) for _ in range(layers))
        self.energy = nn.Linear(width, 1)

    def forward(self, kinds, bonds):
        atoms = self.kinds(kinds)
        for layer in self.layers:
            atoms = layer(atoms, bonds)
        return self.energy(atoms.view(-1, ATOMS, atoms.shape[-1]).mean(1))[:, 0]


def batch_of(molecules, chosen, joined):
    """Kinds, bonds and energies of some molecules: of one large graph, or of each on its own."""
    kinds, bonds = molecules.kinds[chosen], molecules.bonds[chosen]
    if joined:
        kinds, bonds = kinds.flatten(), torch.block_diag(*bonds)
    return kinds, bonds, molecules.energies[chosen]


def train(options):
    torch.manual_seed(7)
    molecules, times = Molecules(), []
    model = Energy(options.width, options.layers)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    for step in range(options.steps):
        start = time.perf_counter()
        chosen = torch.randint(0, MOLECULES, [options.batch])
        kinds, bonds, energies = batch_of(molecules, chosen, options.graphs == "joined")
        loss = functional.mse_loss(model(kinds, bonds), energies)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(time.perf_counter() - start)
        if (step + 1) % 20 == 0:
            print(f"step {step + 1:3d}  loss {loss.item():.4f}", flush=True)
    print(f"median step {1000 * statistics.median(times[5:]):.1f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", choices=["joined", "stacked"], default="joined")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=80)
    parser.add_argument("--width", type=int, default=96)
    parser.add_argument("--layers", type=int, default=4)
    train(parser.parse_args())


if __name__ == "__main__":
    main()
