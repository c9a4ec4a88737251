"""Trains a compiled network, on batches of one length or of several."""

import torch
import training
from torch import _dynamo, nn
from torch.nn import functional


class Block(nn.Module):
    def __init__(self, width, report):
        super().__init__()
        self.layer, self.report, self.largest = nn.Linear(width, width), report, 0.0

    def forward(self, x):
        y = functional.gelu(self.layer(x))
        if self.report:
            _dynamo.graph_break()  # where a print or a logger would be
        return x + 0.1 * y * torch.sigmoid(y)  # stays of one size over many blocks


def main():
    parser = training.parser(__doc__, rows=1024, width=1024, layers=40, lengths=1)
    parser.add_argument("--report", action="store_true", help="leave the graph in each block")
    parser.add_argument("--padded", action="store_true", help="pad batches to one length")
    parser.add_argument("--backend", default="inductor")
    options = parser.parse_args()

    training.start()
    _dynamo.config.recompile_limit = 64
    blocks = [Block(options.width, options.report) for _ in range(options.layers)]
    model = torch.compile(
        nn.Sequential(*blocks).to(training.DEVICE), backend=options.backend, dynamic=False
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs = torch.randn(options.rows, options.width, device=training.DEVICE)
    numbers = torch.arange(options.rows, device=training.DEVICE)[:, None]

    def step(number):
        # A shorter batch every fifth step, each time of a new length.
        shorter = number // 5 % options.lengths if number % 5 == 4 else 0
        length = options.rows - 8 * shorter
        batch = inputs if options.padded else inputs[:length]
        is_real = numbers[: len(batch)] < length
        with training.mixed():
            squares = (model(batch) - 1).float().square() * is_real
        return training.update(optimizer, squares.sum() / (length * options.width))

    training.run(step, options)


if __name__ == "__main__":
    main()
