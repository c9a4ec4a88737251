"""Updates all parameters in one operation."""

import argparse

import tagger
import torch


def optimizer_of(parameters, rate):
    return torch.optim.AdamW(parameters, lr=rate, fused=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--length", type=int, default=12)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--rate", type=float, default=1e-3)
    options = parser.parse_args()

    tagger.train(optimizer_of, options)


if __name__ == "__main__":
    main()
