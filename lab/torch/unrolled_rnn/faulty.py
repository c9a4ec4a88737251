"""Unrolls the recurrent layer by hand: some ten operations for each symbol of a sequence."""

import argparse

import tagger
import torch
from torch import nn


class Recurrent(nn.Module):
    """A long short-term memory, written as its equations."""

    def __init__(self, width):
        super().__init__()
        self.gates = nn.Linear(2 * width, 4 * width)

    def step(self, hidden, cell, inputs):
        gates = self.gates(torch.cat([inputs, hidden], dim=1))
        keep, write, show, values = gates.chunk(4, dim=1)
        cell = torch.sigmoid(keep) * cell + torch.sigmoid(write) * torch.tanh(values)
        return torch.sigmoid(show) * torch.tanh(cell), cell

    def forward(self, inputs):
        hidden = cell = torch.zeros_like(inputs[:, 0])
        states = []
        for time in range(inputs.shape[1]):
            hidden, cell = self.step(hidden, cell, inputs[:, time])
            states.append(hidden)
        return torch.stack(states, dim=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--length", type=int, default=48)
    parser.add_argument("--width", type=int, default=32)
    options = parser.parse_args()

    tagger.train(Recurrent(options.width), options)


if __name__ == "__main__":
    main()
