"""Writes histograms of all parameters and gradients for TensorBoard every 200 steps."""

import argparse
import tempfile

import ratings
from torch.utils.tensorboard import SummaryWriter


class Summaries:
    """Writes the loss, and histograms every few steps."""

    def __init__(self, folder, every):
        self.writer = SummaryWriter(folder)
        self.every = every

    def log(self, step, model, loss):
        if step % self.every:
            return
        self.writer.add_scalar("loss", loss, step)
        for name, parameter in model.named_parameters():
            self.writer.add_histogram(name, parameter, step)
            self.writer.add_histogram(f"{name}.grad", parameter.grad, step)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--every", type=int, default=200)
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        ratings.train(Summaries(folder, options.every).log, options)


if __name__ == "__main__":
    main()
