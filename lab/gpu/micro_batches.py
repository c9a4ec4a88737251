"""Trains a vision transformer, each batch at once or as several that add up their gradients."""

import torch
import training
from torch import nn


def main():
    parser = training.parser(__doc__, batch=64, parts=1, length=197, heads=12, layers=12)
    options = parser.parse_args()

    training.start()
    width = 64 * options.heads
    layer = nn.TransformerEncoderLayer(
        width, options.heads, 4 * width, batch_first=True, dropout=0.0
    )
    model = nn.TransformerEncoder(layer, options.layers, enable_nested_tensor=False)
    model = model.to(training.DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    images = torch.randn(options.batch, options.length, width, device=training.DEVICE)

    def step(_number):
        optimizer.zero_grad(set_to_none=True)
        total = torch.zeros((), device=training.DEVICE)
        for part in images.chunk(options.parts):
            with training.mixed():
                loss = (model(part) - 1).float().square().mean() / options.parts
            loss.backward()
            total += loss.detach()
        optimizer.step()
        return total

    training.run(step, options)


if __name__ == "__main__":
    main()
