"""Ranks softly by an autograd function in NumPy, which leaves PyTorch in both directions."""

import argparse

import numpy as np
import ranking
import torch


class SoftRank(torch.autograd.Function):
    """How many items have a higher score: a sum of sigmoids over all pairs."""

    @staticmethod
    def forward(ctx, scores, temperature):
        values = scores.detach().cpu().numpy().astype(np.float64)
        steepness = []
        ranks = np.empty_like(values)
        for row, scores_of_list in enumerate(values):
            above = (scores_of_list[None, :] - scores_of_list[:, None]) / temperature
            share = 1 / (1 + np.exp(-above))
            ranks[row] = share.sum(1)
            steepness.append(share * (1 - share) / temperature)
        ctx.steepness = steepness
        return torch.from_numpy(ranks).to(scores.device, scores.dtype)

    @staticmethod
    def backward(ctx, grad):
        outer = grad.detach().cpu().numpy().astype(np.float64)
        inner = np.stack(
            [s.T @ g - s.sum(1) * g for s, g in zip(ctx.steepness, outer, strict=True)]
        )
        return torch.from_numpy(inner).to(grad.device, grad.dtype), None


def loss_of(scores, wanted):
    ranks = SoftRank.apply(scores, 0.5)
    return (ranks - SoftRank.apply(wanted, 0.5)).square().mean() / scores.shape[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--batch", type=int, default=24)
    parser.add_argument("--items", type=int, default=96)
    options = parser.parse_args()

    ranking.train(loss_of, options.batch, options.items, options.steps)


if __name__ == "__main__":
    main()
