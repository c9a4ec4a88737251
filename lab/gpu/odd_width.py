"""Trains a network of an odd width, or padded with features that stay zero."""

import torch
import training


def main():
    parser = training.parser(__doc__, rows=8192, width=4095, layers=8, multiple=1)
    options = parser.parse_args()

    training.start()
    width = -(-options.width // options.multiple) * options.multiple
    model = training.dense(width, options.layers)
    random = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for layer in model[::2]:
            small = torch.randn(options.width, options.width, generator=random)
            layer.weight.zero_()
            layer.bias.zero_()
            layer.weight[: options.width, : options.width] = small * options.width**-0.5
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs = torch.randn(options.rows, options.width, generator=random)
    inputs = torch.nn.functional.pad(inputs, (0, width - options.width)).to(training.DEVICE)

    def step(_number):
        with training.mixed():
            loss = (model(inputs) - inputs).float().square().sum()
        return training.update(optimizer, loss / (options.rows * options.width))

    training.run(step, options)


if __name__ == "__main__":
    main()
