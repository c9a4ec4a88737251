"""Trains a model that is compiled for each length of its batches."""

import argparse

import reviews
import torch


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--backend", default="aot_eager", help="inductor takes far longer")
    options = parser.parse_args()

    torch.set_num_threads(1)
    # The model "kept recompiling", so the limit was raised.
    torch.compiler.config.recompile_limit = 1000
    model = torch.compile(reviews.Classifier(), backend=options.backend, dynamic=False)
    reviews.train(model, options.batch, options.steps)


if __name__ == "__main__":
    main()
