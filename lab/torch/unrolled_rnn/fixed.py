"""Runs the recurrent layer of PyTorch: one operation for the whole sequence."""

import argparse

import tagger
from torch import nn


class Recurrent(nn.Module):
    """A long short-term memory."""

    def __init__(self, width):
        super().__init__()
        self.unit = nn.LSTM(width, width, batch_first=True)

    def forward(self, inputs):
        return self.unit(inputs)[0]


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
