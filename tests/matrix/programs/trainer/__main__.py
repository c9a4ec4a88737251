"""The training loop."""

import argparse

import torch

from trainer.model import build


def main():
    parser = argparse.ArgumentParser(prog="trainer")
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--width", type=int, default=128)
    options = parser.parse_args()
    torch.manual_seed(33)
    model = build(options.width)
    optimizer = torch.optim.Adadelta(model.parameters())
    for step in range(options.steps):
        x = torch.randn(64, 48)
        loss = torch.nn.functional.cross_entropy(model(x), x[:, :6].argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            print(f"{__package__}: step {step}, loss {loss.item()!r}")


main()
