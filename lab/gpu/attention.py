"""Trains a transformer whose attention is written out, or the library's."""

import torch
import training
from torch import nn
from torch.nn import functional


def written_out(query, key, value):
    scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
    return scores.softmax(-1).to(value.dtype) @ value


class Block(nn.Module):
    def __init__(self, width, heads, attend):
        super().__init__()
        self.heads, self.attend = heads, attend
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.project, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.project(self.norms[0](x)).view(batch, length, 3, self.heads, -1)
        attended = self.attend(*parts.permute(2, 0, 3, 1, 4))
        x = x + self.join(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.norms[1](x))))


def main():
    parser = training.parser(__doc__, batch=8, heads=16, length=2048, layers=6)
    parser.add_argument("--fused", action="store_true", help="use the library's attention")
    options = parser.parse_args()

    training.start()
    width = 64 * options.heads
    attend = functional.scaled_dot_product_attention if options.fused else written_out
    blocks = [Block(width, options.heads, attend) for _ in range(options.layers)]
    model = nn.Sequential(*blocks).to(training.DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    inputs = torch.randn(options.batch, options.length, width, device=training.DEVICE)

    def step(_number):
        with training.mixed():
            loss = (model(inputs) - 1).float().square().mean()
        return training.update(optimizer, loss)

    training.run(step, options)


if __name__ == "__main__":
    main()
