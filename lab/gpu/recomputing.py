"""Trains a network that keeps its activations, or computes them again for the gradients."""

import torch
import training
from torch.utils.checkpoint import checkpoint_sequential


def main():
    parser = training.parser(__doc__, rows=8192, width=4096, layers=16, segments=0)
    options = parser.parse_args()

    training.start()
    model = training.dense(options.width, options.layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs = torch.randn(options.rows, options.width, device=training.DEVICE)

    def predict():
        if not options.segments:
            return model(inputs)
        return checkpoint_sequential(model, options.segments, inputs, use_reentrant=False)

    def step(_number):
        with training.mixed():
            loss = (predict() - inputs).float().square().mean()
        return training.update(optimizer, loss)

    training.run(step, options)


if __name__ == "__main__":
    main()
