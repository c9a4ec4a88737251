"""Trains convolutions on images, in mixed precision."""

import torch
import training
from torch import nn


class Norm(nn.Module):
    """Batch normalisation, written out."""

    def __init__(self, channels, momentum=0.1, epsilon=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1, channels, 1, 1))
        self.bias = nn.Parameter(torch.zeros(1, channels, 1, 1))
        self.register_buffer("running_mean", torch.zeros(1, channels, 1, 1))
        self.register_buffer("running_var", torch.ones(1, channels, 1, 1))
        self.momentum, self.epsilon = momentum, epsilon

    def forward(self, x):
        mean = x.mean((0, 2, 3), keepdim=True)
        var = x.var((0, 2, 3), keepdim=True, unbiased=False)
        with torch.no_grad():
            self.running_mean.mul_(1 - self.momentum).add_(self.momentum * mean)
            self.running_var.mul_(1 - self.momentum).add_(self.momentum * var)
        return (x - mean) / torch.sqrt(var + self.epsilon) * self.weight + self.bias


def model_of(options):
    norm = Norm if options.own_norm else nn.BatchNorm2d
    layers = []
    for number in range(options.layers):
        channels = options.channels if number else 3
        layers += [nn.Conv2d(channels, options.channels, 3, padding=1, bias=False)]
        layers += [norm(options.channels), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten()).to(training.DEVICE)


def main():
    parser = training.parser(__doc__, batch=64, channels=256, side=56, layers=12)
    parser.add_argument("--channels-last", action="store_true", help="the layout of the kernels")
    parser.add_argument("--own-norm", action="store_true", help="normalise in own operations")
    parser.add_argument("--full-precision", action="store_true", help="compute in float32")
    options = parser.parse_args()

    training.start()
    model = model_of(options)
    images = torch.randn(options.batch, 3, options.side, options.side, device=training.DEVICE)
    if options.channels_last:
        model = model.to(memory_format=torch.channels_last)
        images = images.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(_number):
        with training.mixed(not options.full_precision):
            loss = (model(images).float() - 1).square().mean()
        return training.update(optimizer, loss)

    training.run(step, options)


if __name__ == "__main__":
    main()
