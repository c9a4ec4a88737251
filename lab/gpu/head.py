"""Trains a network in mixed precision, whose last layer computes in full or in mixed precision."""

import torch
import training


def main():
    parser = training.parser(__doc__, rows=8192, width=4096, layers=16, outputs=4096)
    parser.add_argument("--mixed-head", action="store_true", help="the last layer as the others")
    options = parser.parse_args()

    training.start()
    body = training.dense(options.width, options.layers)
    head = torch.nn.Linear(options.width, options.outputs, device=training.DEVICE)
    optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1)
    inputs = torch.randn(options.rows, options.width, device=training.DEVICE)

    def step(_number):
        with training.mixed():
            hidden = body(inputs)
        with training.mixed(options.mixed_head):
            logits = head(hidden if options.mixed_head else hidden.float())
        return training.update(optimizer, (logits.float() - 1).square().mean())

    training.run(step, options)


if __name__ == "__main__":
    main()
